// Code points: UTF-8 in and out, and the classes that the pre-tokenizers ask for.
// Classes are those of Unicode 15.1.0 (the version in llama.cpp's tables), from a generated table.
// Non-goals: normalisation, case mapping, grapheme clusters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace nonstop {

inline constexpr uint32_t kReplacementCodePoint = 0xfffd;
inline constexpr uint32_t kMaxCodePoint = 0x10ffff;

// General categories by their first letter; Z and C are kOther.
// The order is fixed by tools/unicode/make_tables.py.
enum class CharacterClass : uint8_t { kOther = 0, kLetter, kNumber, kMark, kPunctuation, kSymbol };

// kOther for what is no code point.
CharacterClass ClassOf(uint32_t code_point);

// The property White_Space.
bool IsWhitespace(uint32_t code_point);

// Reads one code point at `*offset` (inside `text`) and moves past it, as llama.cpp's tokenizer
// does: overlong forms and surrogates are taken, a byte that starts nothing is U+FFFD by itself.
// Above U+10FFFF, where llama.cpp gives up on the text, it is U+FFFD per byte too.
uint32_t NextCodePoint(std::string_view text, size_t* offset);

// Up to 4 bytes at `out`; returns how many. Surrogates are written like any other code point.
size_t EncodeUtf8(uint32_t code_point, char* out);
void AppendUtf8(uint32_t code_point, std::string* out);

// The length that a UTF-8 sequence has by its first byte; 1 for a byte that starts none.
constexpr size_t Utf8Length(uint8_t first_byte) {
  if (first_byte < 0xc0) return 1;
  if (first_byte < 0xe0) return 2;
  return first_byte < 0xf0 ? 3 : 4;
}

}  // namespace nonstop
