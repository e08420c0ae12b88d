// Text of messages: long text, grouped digits, hostile names.
#include "base/format.h"

#include <gtest/gtest.h>

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
