// Text of messages: long text, grouped digits, hostile names.
#include "base/format.h"

#include <gtest/gtest.h>

#include <bit>
#include <climits>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace nonstop {
namespace {

TEST(Format, FormatsShortAndLongText) {
  EXPECT_EQ(Format("%s is %d", "x", -4), "x is -4");
  EXPECT_EQ(Format("%s", ""), "");
  // Around the size of the buffer on the stack (256 bytes with the terminator).
  for (const size_t size : {254u, 255u, 256u, 257u, 100'000u}) {
    const std::string text(size, 'a');
    EXPECT_EQ(Format("<%s>", text.c_str()), "<" + text + ">") << size;
  }
}

// The C library's snprintf is the outside value.
template <class... Values>
void ExpectAsPrintf(const char* format, Values... values) {
  char text[512];
  std::snprintf(text, sizeof(text), format, values...);
  EXPECT_EQ(Format(format, values...), text) << format;
}

TEST(Format, WritesWhatPrintfWrites) {
  ExpectAsPrintf("%d %d %d|%5d|%-5d|%05d", 0, INT_MIN, INT_MAX, -42, -42, -42);
  ExpectAsPrintf("%u %lu %llu %zu", 7u, 8ul, UINT64_MAX * 1ull, size_t{9});
  ExpectAsPrintf("%lld %ld", static_cast<long long>(INT64_MIN), -5l);
  ExpectAsPrintf("%x %X %04x %08llX", 0xbeefu, 0xbeefu, 0xau, 0x123ull);
  ExpectAsPrintf("%s|%.3s|%.*s|%8s|%-8s|%c%%", "abc", "abcdef", 2, "xyz", "r", "l", 'c');
  for (const double value :
       {0.0, -0.0, 1.0, -1.5, 0.1, 1e-5, 123456.0, 1234567.0, 1e-4, 9.99999e-5, 999999.5, 1e100,
        -2.5e-300, 5e-324, 1.7976931348623157e308, 3.14159265358979, 1e22, 0.5, 65504.0}) {
    ExpectAsPrintf("%g", value);
    ExpectAsPrintf("%.9g", value);
    ExpectAsPrintf("%.3g|%12.4g", value, value);
    if (std::abs(value) < 1e9) ExpectAsPrintf("%.2f|%.0f|%8.3f", value, value, value);
  }
  ExpectAsPrintf("%g %g", HUGE_VAL, -HUGE_VAL);
  EXPECT_EQ(Format("%g", std::nan("")), "nan");
}

TEST(Format, NineDigitsGiveAFloatBack) {
  uint32_t state = 1;
  for (int i = 0; i < 20'000; ++i) {
    state = state * 1'664'525u + 1'013'904'223u;
    const float value = std::bit_cast<float>(state);
    if (!std::isfinite(value)) continue;
    EXPECT_EQ(std::strtof(Format("%.9g", static_cast<double>(value)).c_str(), nullptr), value);
  }
}

TEST(Format, AppendsToWhatIsThere) {
  std::string out = "a";
  AppendFormat(out, "%d-%d", 1, 2);
  EXPECT_EQ(out, "a1-2");
}

TEST(Format, GroupsThousands) {
  EXPECT_STREQ(Grouped(0).c_str(), "0");
  EXPECT_STREQ(Grouped(999).c_str(), "999");
  EXPECT_STREQ(Grouped(1'000).c_str(), "1,000");
  EXPECT_STREQ(Grouped(98'362'432).c_str(), "98,362,432");
  EXPECT_STREQ(Grouped(UINT64_MAX).c_str(), "18,446,744,073,709,551,615");
}

TEST(Format, PrintableHidesControlBytesAndCuts) {
  EXPECT_EQ(Printable(std::string_view("a\0\n\x7f\xff z", 7)), "a???? z");
  EXPECT_EQ(Printable("abcdef", 6), "abcdef");
  EXPECT_EQ(Printable("abcdefg", 6), "abcdef...");
}

}  // namespace
}  // namespace nonstop
