#include "text/unicode.h"

#include "text/unicode_tables.h"

namespace nonstop {
namespace {

bool IsContinuation(char byte) { return (static_cast<uint8_t>(byte) & 0xc0) == 0x80; }

}  // namespace

CharacterClass ClassOf(uint32_t code_point) {
  if (code_point > kMaxCodePoint) return CharacterClass::kOther;
  const uint32_t key = (code_point << 3) | 7;  // not below any class of the same code point
  size_t low = 0;                              // kClassRanges[0] is code point 0
  size_t high = kClassRangeCount;
  while (high - low > 1) {
    const size_t middle = low + (high - low) / 2;
    (kClassRanges[middle] <= key ? low : high) = middle;
  }
  return static_cast<CharacterClass>(kClassRanges[low] & 7);
}

bool IsWhitespace(uint32_t code_point) {
  if (code_point < 0x80) return code_point == ' ' || (code_point >= 9 && code_point <= 13);
  if (code_point < 0x2000) {
    return code_point == 0x85 || code_point == 0xa0 || code_point == 0x1680;
  }
  return code_point <= 0x200a || code_point == 0x2028 || code_point == 0x2029 ||
         code_point == 0x202f || code_point == 0x205f || code_point == 0x3000;
}

uint32_t NextCodePoint(std::string_view text, size_t* offset) {
  static constexpr uint8_t kFirstByteMask[5] = {0, 0x7f, 0x1f, 0x0f, 0x07};
  const auto first = static_cast<uint8_t>(text[*offset]);
  const size_t length = Utf8Length(first);
  uint32_t code_point = first & kFirstByteMask[length];
  bool valid = first < 0x80 || (first >= 0xc0 && first < 0xf8);
  valid = valid && length <= text.size() - *offset;
  for (size_t i = 1; valid && i < length; ++i) {
    const char next = text[*offset + i];
    valid = IsContinuation(next);
    code_point = (code_point << 6) | (static_cast<uint8_t>(next) & 0x3f);
  }
  if (!valid || code_point > kMaxCodePoint) {
    *offset += 1;
    return kReplacementCodePoint;
  }
  *offset += length;
  return code_point;
}

size_t EncodeUtf8(uint32_t code_point, char* out) {
  const auto tail = [code_point](int shift) {
    return static_cast<char>(0x80 | ((code_point >> shift) & 0x3f));
  };
  if (code_point < 0x80) {
    out[0] = static_cast<char>(code_point);
    return 1;
  }
  if (code_point < 0x800) {
    out[0] = static_cast<char>(0xc0 | (code_point >> 6));
    out[1] = tail(0);
    return 2;
  }
  if (code_point < 0x10000) {
    out[0] = static_cast<char>(0xe0 | (code_point >> 12));
    out[1] = tail(6);
    out[2] = tail(0);
    return 3;
  }
  out[0] = static_cast<char>(0xf0 | ((code_point >> 18) & 7));
  out[1] = tail(12);
  out[2] = tail(6);
  out[3] = tail(0);
  return 4;
}

void AppendUtf8(uint32_t code_point, std::string* out) {
  char bytes[4];
  out->append(bytes, EncodeUtf8(code_point, bytes));
}

}  // namespace nonstop
