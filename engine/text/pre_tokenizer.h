// Cuts a text into the words that byte-pair merges may not cross.
// Each pre-tokenizer is one or more stages; each stage is a hand-written scanner that cuts the
// pieces of the stage before it as llama.cpp's regular expression of that name does
// (llama-vocab.cpp, llm_tokenizer_bpe; unicode.cpp, unicode_regex_split).
// Non-goals: a regular-expression engine, pre-tokenizers that no row names.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "text/unicode.h"

namespace nonstop {

// A code point with its class and whether it is white space.
class ClassifiedCodePoint {
 public:
  explicit ClassifiedCodePoint(uint32_t code_point)
      : bits_(code_point | static_cast<uint32_t>(ClassOf(code_point)) << 21 |
              static_cast<uint32_t>(nonstop::IsWhitespace(code_point)) << 24) {}

  uint32_t value() const { return bits_ & 0x1fffffu; }
  CharacterClass character_class() const { return static_cast<CharacterClass>((bits_ >> 21) & 7u); }
  bool IsLetter() const { return character_class() == CharacterClass::kLetter; }
  bool IsNumber() const { return character_class() == CharacterClass::kNumber; }
  bool IsPunctuation() const { return character_class() == CharacterClass::kPunctuation; }
  bool IsWhitespace() const { return (bits_ >> 24) != 0; }
  // [^\s\p{L}\p{N}]
  bool IsSign() const { return !IsWhitespace() && !IsLetter() && !IsNumber(); }
  bool IsNewline() const { return value() == '\r' || value() == '\n'; }
  bool Is(char c) const { return value() == static_cast<uint8_t>(c); }

 private:
  uint32_t bits_;
};

using CodePoints = std::span<const ClassifiedCodePoint>;

// Appends the ends of the pieces that it cuts [begin, end) into; the last one is `end`.
using SplitStage = void (*)(CodePoints text, uint32_t begin, uint32_t end,
                            std::vector<uint32_t>* ends);

struct PreTokenizer {
  std::string_view name;  // as tokenizer.ggml.pre says it
  std::span<const SplitStage> stages;
  bool ignores_merges;   // a word that is a token is taken as it is
  bool adds_bos;         // where the file does not say
  bool has_default_bos;  // token 11, where the file does not say
};

// Out of line: the growth of a vector would be inlined into every stage.
void AppendEnd(uint32_t end, std::vector<uint32_t>* ends);

// By name; nullptr for one that we do not know. "" is the default one, as in llama.cpp.
const PreTokenizer* FindPreTokenizer(std::string_view name);

std::vector<ClassifiedCodePoint> Classify(std::string_view text);

// The ends of the words in `text`, ascending.
std::vector<uint32_t> SplitWords(const PreTokenizer& pre_tokenizer, CodePoints text);

// The stages, in split_*.cc.
void SplitGpt2(CodePoints text, uint32_t begin, uint32_t end, std::vector<uint32_t>* ends);
void SplitLlama3(CodePoints text, uint32_t begin, uint32_t end, std::vector<uint32_t>* ends);
void SplitQwen2(CodePoints text, uint32_t begin, uint32_t end, std::vector<uint32_t>* ends);
void SplitTekken(CodePoints text, uint32_t begin, uint32_t end, std::vector<uint32_t>* ends);
void SplitEachNumber(CodePoints text, uint32_t begin, uint32_t end, std::vector<uint32_t>* ends);
void SplitNumberRuns(CodePoints text, uint32_t begin, uint32_t end, std::vector<uint32_t>* ends);
void SplitThreeDigits(CodePoints text, uint32_t begin, uint32_t end, std::vector<uint32_t>* ends);
void SplitSigns(CodePoints text, uint32_t begin, uint32_t end, std::vector<uint32_t>* ends);
void SplitEachNewline(CodePoints text, uint32_t begin, uint32_t end, std::vector<uint32_t>* ends);
void SplitTrailingSpace(CodePoints text, uint32_t begin, uint32_t end, std::vector<uint32_t>* ends);
void SplitDeepSeekLetters(CodePoints text, uint32_t begin, uint32_t end,
                          std::vector<uint32_t>* ends);
void SplitDeepSeekSigns(CodePoints text, uint32_t begin, uint32_t end, std::vector<uint32_t>* ends);
void SplitDeepSeekCjk(CodePoints text, uint32_t begin, uint32_t end, std::vector<uint32_t>* ends);

}  // namespace nonstop
