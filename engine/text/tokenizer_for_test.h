// For tests only: tokenizers from files, and vocabularies written by hand.
#pragma once

#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/format.h"
#include "base/test_files.h"
#include "format/gguf.h"
#include "text/byte_pair.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

namespace nonstop {

// The header of a GGUF file, read in steps (a model's weights are not wanted).
inline Result<Gguf> ReadTestGguf(const std::string& path) {
  constexpr size_t kHeaderLimitBytes = 32u << 20;
  ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, ReadTestFile(path, kHeaderLimitBytes));
  GgufParser parser;
  ASSIGN_OR_RETURN(const bool complete, parser.Push(bytes));
  if (!complete) return parser.Truncated();
  return parser.Take();
}

inline Result<std::unique_ptr<Tokenizer>> ReadTestTokenizer(const std::string& path) {
  ASSIGN_OR_RETURN(const Gguf gguf, ReadTestGguf(path));
  return Tokenizer::Create(gguf);
}

// An array of strings as it stands in a file.
class TestStrings {
 public:
  TestStrings() = default;
  TestStrings(std::initializer_list<std::string_view> texts) {
    for (const std::string_view text : texts) Add(text);
  }
  void Add(std::string_view text) {
    const uint64_t size_bytes = text.size();
    bytes_.append(reinterpret_cast<const char*>(&size_bytes), sizeof(size_bytes));
    bytes_.append(text);
    ++count_;
  }
  uint64_t count() const { return count_; }
  GgufStringArray array() const {
    return GgufStringArray(std::as_bytes(std::span(bytes_)), count_);
  }

 private:
  std::string bytes_;
  uint64_t count_ = 0;
};

// A byte-level vocabulary: the 256 bytes as tokens 0-255, then what a test adds.
struct TestBytePairs {
  TestStrings tokens;
  TestStrings merges;
  std::vector<int32_t> types;

  TestBytePairs();
  void AddToken(std::string_view written, TokenType type = TokenType::kNormal) {
    tokens.Add(written);
    types.push_back(static_cast<int32_t>(type));
  }
  // "left right" and their token.
  void AddMerge(std::string_view left, std::string_view right) {
    merges.Add(std::string(left).append(" ").append(right));
    AddToken(std::string(left).append(right));
  }
  TokenizerSpec Spec(std::string_view pre) const {
    TokenizerSpec spec;
    spec.model = "gpt2";
    spec.pre = pre;
    spec.tokens = tokens.array();
    spec.merges = merges.array();
    spec.types = types;
    return spec;
  }
};

// A SentencePiece vocabulary: <unk>, <s>, </s>, the 256 byte tokens, then what a test adds.
struct TestPieces {
  TestStrings tokens;
  std::vector<float> scores;
  std::vector<int32_t> types;

  TestPieces();
  void AddToken(std::string_view text, float score, TokenType type = TokenType::kNormal) {
    tokens.Add(text);
    scores.push_back(score);
    types.push_back(static_cast<int32_t>(type));
  }
  TokenizerSpec Spec() const {
    TokenizerSpec spec;
    spec.model = "llama";
    spec.tokens = tokens.array();
    spec.scores = scores;
    spec.types = types;
    return spec;
  }
};

inline TestBytePairs::TestBytePairs() {
  for (int byte = 0; byte < 256; ++byte) {
    std::string written;
    AppendUtf8(CodePointOfByte(static_cast<uint8_t>(byte)), &written);
    AddToken(written);
  }
}

inline TestPieces::TestPieces() {
  AddToken("<unk>", 0, TokenType::kUnknown);
  AddToken("<s>", 0, TokenType::kControl);
  AddToken("</s>", 0, TokenType::kControl);
  for (unsigned byte = 0; byte < 256; ++byte) {
    AddToken(Format("<0x%02X>", byte), 0, TokenType::kByte);
  }
}

}  // namespace nonstop
