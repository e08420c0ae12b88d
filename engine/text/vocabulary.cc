#include "text/vocabulary.h"

#include <algorithm>

#include "base/format.h"

namespace nonstop {
namespace {

// The least that a token takes in the file is its 8-byte length, so this bounds nothing real; ids
// are int32 and the tables use 32-bit offsets.
constexpr uint64_t kMaxTokenCount = 1u << 24;
constexpr uint64_t kMaxTextSizeBytes = 1u << 30;
// Real ones stay under 1,100; the bound keeps the search for special tokens linear.
constexpr size_t kMaxTokenSizeBytes = 16'384;

uint8_t AttributeOfType(int32_t type) {
  if (type < 0 || type > 255) return 0;  // unheard of: as good as undefined
  switch (static_cast<TokenType>(type)) {
    case TokenType::kNormal:
      return TokenAttribute::kNormal;
    case TokenType::kUnknown:
      return TokenAttribute::kUnknown;
    case TokenType::kControl:
      return TokenAttribute::kControl;
    case TokenType::kUserDefined:
      return TokenAttribute::kUserDefined;
    case TokenType::kUnused:
      return TokenAttribute::kUnused;
    case TokenType::kByte:
      return TokenAttribute::kByte;
    case TokenType::kUndefined:
      break;
  }
  return 0;
}

Status CheckLength(const char* key, size_t count, uint32_t token_count) {
  if (count == token_count) return {};
  return MakeError(ErrorCode::kMalformed,
                   "The array \"%s\" has another length (%zu) than the vocabulary (%u).", key,
                   count, token_count);
}

}  // namespace

Result<Vocabulary> Vocabulary::Create(const TokenizerSpec& spec,
                                      const VocabularyDefaults& defaults) {
  Vocabulary vocabulary;
  TRY(vocabulary.ReadTexts(spec));
  TRY(vocabulary.ReadTypesAndScores(spec));
  TRY(vocabulary.ReadSpecialIds(spec, defaults));
  TRY(vocabulary.ReadFlags(spec, defaults));
  vocabulary.FindRolesByText();
  vocabulary.CollectEndTokens();
  vocabulary.ApplyPhi3Stripping(spec.general_name);
  return vocabulary;
}

Status Vocabulary::ReadTexts(const TokenizerSpec& spec) {
  if (!spec.tokens) {
    return MakeError(ErrorCode::kMissingMetadata,
                     "The file has no vocabulary (key \"tokenizer.ggml.tokens\").");
  }
  const uint64_t count = spec.tokens->count();
  uint64_t size_bytes = 0;
  size_t longest_size_bytes = 0;
  spec.tokens->ForEach([&](uint64_t, std::string_view text) {
    size_bytes += text.size();
    longest_size_bytes = std::max(longest_size_bytes, text.size());
  });
  if (count == 0 || count > kMaxTokenCount || size_bytes > kMaxTextSizeBytes) {
    return MakeError(ErrorCode::kMalformed,
                     "The vocabulary's number of tokens (%llu) or size in bytes (%llu) is out of "
                     "range.",
                     static_cast<unsigned long long>(count),
                     static_cast<unsigned long long>(size_bytes));
  }
  if (longest_size_bytes > kMaxTokenSizeBytes) {
    return MakeError(ErrorCode::kMalformed,
                     "The vocabulary's longest token has a size in bytes (%zu) over the limit "
                     "(%zu).",
                     longest_size_bytes, kMaxTokenSizeBytes);
  }
  texts_.Reserve(count, size_bytes);
  Status status;
  spec.tokens->ForEach([&](uint64_t index, std::string_view text) {
    if (!status.ok()) return;
    const auto id = static_cast<unsigned>(index);
    const auto added = text.empty() ? texts_.Add(Format("[EMPTY_%u]", id)) : texts_.Add(text);
    if (added == TextTable::Added::kPresent) {
      status = MakeError(ErrorCode::kMalformed,
                         "The vocabulary has the text \"%s\" twice (the second is token (%u)).",
                         Printable(text).c_str(), id);
    } else if (added == TextTable::Added::kTooManyCollisions) {
      status = MakeError(ErrorCode::kMalformed,
                         "The vocabulary is made so that its texts collide (at token (%u)).", id);
    }
  });
  return status;
}

Status Vocabulary::ReadTypesAndScores(const TokenizerSpec& spec) {
  if (spec.scores) {
    TRY(CheckLength("tokenizer.ggml.scores", spec.scores->size(), size()));
    if (spec.model == "llama") scores_ = *spec.scores;  // byte pairs merge by rank
  }
  attributes_.assign(size(), TokenAttribute::kNormal);
  if (spec.types) {
    TRY(CheckLength("tokenizer.ggml.token_type", spec.types->size(), size()));
    std::transform(spec.types->begin(), spec.types->end(), attributes_.begin(), AttributeOfType);
  }
  return {};
}

Status Vocabulary::ReadSpecialIds(const TokenizerSpec& spec, const VocabularyDefaults& defaults) {
  special_ids_.fill(kNoToken);
  const auto set_default = [&](SpecialRole role, TokenId id) {
    if (id < static_cast<TokenId>(size())) special_ids_[static_cast<size_t>(role)] = id;
  };
  set_default(SpecialRole::kBos, defaults.bos);
  set_default(SpecialRole::kEos, defaults.eos);
  set_default(SpecialRole::kUnknown, defaults.unknown);
  for (size_t role = 0; role < kSpecialRoleCount; ++role) {
    const std::optional<uint64_t> id = spec.special_ids[role];
    if (!id) continue;
    if (*id >= size()) {
      return MakeError(ErrorCode::kMalformed,
                       "The key \"%s\" names a token (%llu) outside the vocabulary (%u tokens).",
                       SpecialRoleKey(static_cast<SpecialRole>(role)),
                       static_cast<unsigned long long>(*id), size());
    }
    special_ids_[role] = static_cast<TokenId>(*id);
  }
  return {};
}

Status Vocabulary::ReadFlags(const TokenizerSpec& spec, const VocabularyDefaults& defaults) {
  adds_bos_ = spec.add_bos.value_or(defaults.add_bos);
  adds_eos_ = spec.add_eos.value_or(false);
  adds_space_prefix_ = spec.add_space_prefix.value_or(defaults.add_space_prefix);
  if ((adds_bos_ && special(SpecialRole::kBos) == kNoToken) ||
      (adds_eos_ && special(SpecialRole::kEos) == kNoToken)) {
    return MakeError(ErrorCode::kMissingMetadata,
                     "The tokenizer adds a begin or end token but the file does not say which.");
  }
  return {};
}

TokenType Vocabulary::type(TokenId id) const {
  const uint8_t attributes = this->attributes(id);
  if (attributes & TokenAttribute::kControl) return TokenType::kControl;
  if (attributes & TokenAttribute::kUnknown) return TokenType::kUnknown;
  if (attributes & TokenAttribute::kUserDefined) return TokenType::kUserDefined;
  if (attributes & TokenAttribute::kByte) return TokenType::kByte;
  if (attributes & TokenAttribute::kUnused) return TokenType::kUnused;
  return attributes & TokenAttribute::kNormal ? TokenType::kNormal : TokenType::kUndefined;
}

bool Vocabulary::IsEnd(TokenId id) const {
  return std::binary_search(end_tokens_.begin(), end_tokens_.end(), id);
}

size_t Vocabulary::memory_size_bytes() const {
  return texts_.memory_size_bytes() + attributes_.capacity() + 4 * scores_.capacity();
}

}  // namespace nonstop
