// Classes against the Unicode Character Database 15.1.0 (counts by an independent reader of it:
// Python's unicodedata2 15.1.0), UTF-8 against llama.cpp's lenient reading.
#include "text/unicode.h"

#include <gtest/gtest.h>

#include <vector>

namespace nonstop {
namespace {

TEST(Unicode, ClassCounts) {
  uint32_t counts[6] = {};
  for (uint32_t c = 0; c <= kMaxCodePoint; ++c) ++counts[static_cast<size_t>(ClassOf(c))];
  EXPECT_EQ(counts[0], 964'469u + 19u);  // C and Z
  EXPECT_EQ(counts[1], 136'726u);        // L
  EXPECT_EQ(counts[2], 1'831u);          // N
  EXPECT_EQ(counts[3], 2'450u);          // M
  EXPECT_EQ(counts[4], 842u);            // P
  EXPECT_EQ(counts[5], 7'775u);          // S
}

TEST(Unicode, ClassesOfSingleCodePoints) {
  struct Case {
    uint32_t code_point;
    CharacterClass expected;
  };
  const Case cases[] = {
      {0, CharacterClass::kOther},          {'A', CharacterClass::kLetter},
      {'9', CharacterClass::kNumber},       {'_', CharacterClass::kPunctuation},
      {'$', CharacterClass::kSymbol},       {' ', CharacterClass::kOther},
      {0xb7, CharacterClass::kPunctuation}, {0x1c5, CharacterClass::kLetter},
      {0x2b0, CharacterClass::kLetter},     {0x378, CharacterClass::kOther},
      {0x903, CharacterClass::kMark},       {0x2160, CharacterClass::kNumber},
      {0x3007, CharacterClass::kNumber},    {0x2ffc, CharacterClass::kSymbol},  // new in 15.1
      {0xd800, CharacterClass::kOther},     {0xe000, CharacterClass::kOther},
      {0xfffd, CharacterClass::kSymbol},    {0x11f02, CharacterClass::kLetter},  // new in 15.0
      {0x1f600, CharacterClass::kSymbol},   {0x10ffff, CharacterClass::kOther},
      {0x110000, CharacterClass::kOther},   {0xffffffff, CharacterClass::kOther},
  };
  for (const Case& c : cases) EXPECT_EQ(ClassOf(c.code_point), c.expected) << c.code_point;
}

TEST(Unicode, Whitespace) {
  std::vector<uint32_t> found;
  for (uint32_t c = 0; c <= kMaxCodePoint; ++c) {
    if (IsWhitespace(c)) found.push_back(c);
  }
  // PropList.txt, White_Space.
  const std::vector<uint32_t> expected = {0x9,    0xa,    0xb,    0xc,    0xd,    0x20,   0x85,
                                          0xa0,   0x1680, 0x2000, 0x2001, 0x2002, 0x2003, 0x2004,
                                          0x2005, 0x2006, 0x2007, 0x2008, 0x2009, 0x200a, 0x2028,
                                          0x2029, 0x202f, 0x205f, 0x3000};
  EXPECT_EQ(found, expected);
}

TEST(Unicode, EveryCodePointRoundTrips) {
  for (uint32_t c = 0; c <= kMaxCodePoint; ++c) {
    std::string bytes;
    AppendUtf8(c, &bytes);
    EXPECT_EQ(Utf8Length(static_cast<uint8_t>(bytes[0])), bytes.size());
    size_t offset = 0;
    ASSERT_EQ(NextCodePoint(bytes, &offset), c);
    ASSERT_EQ(offset, bytes.size());
  }
}

std::vector<uint32_t> Decode(std::string_view text) {
  std::vector<uint32_t> code_points;
  for (size_t offset = 0; offset < text.size();) {
    code_points.push_back(NextCodePoint(text, &offset));
  }
  return code_points;
}

TEST(Unicode, BadBytesAreReplacedOneByOne) {
  using V = std::vector<uint32_t>;
  EXPECT_EQ(Decode("a\x80z"), (V{'a', 0xfffd, 'z'}));
  EXPECT_EQ(Decode("\xe2\x82"), (V{0xfffd, 0xfffd}));  // cut short
  EXPECT_EQ(Decode("\xe2\x82z"), (V{0xfffd, 0xfffd, 'z'}));
  EXPECT_EQ(Decode("\xc0\x80"), (V{0}));           // overlong, as llama.cpp takes it
  EXPECT_EQ(Decode("\xed\xa0\x80"), (V{0xd800}));  // a surrogate
  EXPECT_EQ(Decode("\xf4\x90\x80\x80"), (V{0xfffd, 0xfffd, 0xfffd, 0xfffd}));  // > U+10FFFF
  EXPECT_EQ(Decode("\xff\xf8"), (V{0xfffd, 0xfffd}));
}

}  // namespace
}  // namespace nonstop
