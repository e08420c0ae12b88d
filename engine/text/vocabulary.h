// The vocabulary: token texts, attributes, scores, special ids, and what ends a generation.
// Goals: flat arrays (no allocation per token), every count and id from the file checked, and the
// corrections that llama.cpp makes to a file's token types (llama-vocab.cpp, llama_vocab::load).
// Non-goals: encoding and decoding (byte_pair.h, sentence_piece.h, tokenizer.h).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/text_table.h"
#include "text/tokenizer_spec.h"

namespace nonstop {

using TokenId = int32_t;
inline constexpr TokenId kNoToken = -1;

// Values of tokenizer.ggml.token_type.
enum class TokenType : uint8_t {
  kUndefined = 0,
  kNormal,
  kUnknown,
  kControl,
  kUserDefined,
  kUnused,
  kByte,
};

// A token may have several: a control-looking text makes a normal token a control token as well.
struct TokenAttribute {
  static constexpr uint8_t kNormal = 1, kUnknown = 2, kControl = 4, kUserDefined = 8;
  static constexpr uint8_t kUnused = 16, kByte = 32;
  static constexpr uint8_t kStripRight = 64;  // white space after it in a prompt is dropped
  static constexpr uint8_t kSpecial = kUnknown | kControl;  // only parsed and printed on request
};

// What holds for a kind of tokenizer where the file is silent (llama.cpp's defaults).
struct VocabularyDefaults {
  TokenId bos = kNoToken;
  TokenId eos = kNoToken;
  TokenId unknown = kNoToken;
  bool add_bos = false;
  bool add_space_prefix = false;
};

class Vocabulary {
 public:
  static Result<Vocabulary> Create(const TokenizerSpec& spec, const VocabularyDefaults& defaults);

  uint32_t size() const { return texts_.size(); }
  std::string_view text(TokenId id) const { return texts_[static_cast<uint32_t>(id)]; }
  TokenId Find(std::string_view text) const { return static_cast<TokenId>(texts_.Find(text)); }
  size_t longest_size_bytes() const { return texts_.longest_size_bytes(); }
  uint8_t attributes(TokenId id) const { return attributes_[static_cast<size_t>(id)]; }
  bool Has(TokenId id, uint8_t attributes) const {
    return (this->attributes(id) & attributes) != 0;
  }
  TokenType type(TokenId id) const;
  float score(TokenId id) const {
    return scores_.empty() ? 0.0f : scores_[static_cast<size_t>(id)];
  }

  TokenId special(SpecialRole role) const { return special_ids_[static_cast<size_t>(role)]; }
  bool adds_bos() const { return adds_bos_; }
  bool adds_eos() const { return adds_eos_; }
  bool adds_space_prefix() const { return adds_space_prefix_; }
  std::span<const TokenId> end_tokens() const { return end_tokens_; }  // ascending
  bool IsEnd(TokenId id) const;
  size_t memory_size_bytes() const;

 private:
  Status ReadTexts(const TokenizerSpec& spec);
  Status ReadTypesAndScores(const TokenizerSpec& spec);
  Status ReadSpecialIds(const TokenizerSpec& spec, const VocabularyDefaults& defaults);
  Status ReadFlags(const TokenizerSpec& spec, const VocabularyDefaults& defaults);
  // In end_tokens.cc: the rules that go by well-known texts.
  void FindRolesByText();
  void CollectEndTokens();
  void AddEnd(TokenId id);
  void DropFalseEnds();
  void ApplyPhi3Stripping(std::string_view general_name);

  TextTable texts_;
  std::vector<uint8_t> attributes_;
  std::vector<float> scores_;
  std::array<TokenId, kSpecialRoleCount> special_ids_;
  std::vector<TokenId> end_tokens_;
  bool adds_bos_ = false;
  bool adds_eos_ = false;
  bool adds_space_prefix_ = false;
};

}  // namespace nonstop
