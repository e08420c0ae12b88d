// What a model file says about its tokenizer, read but not yet judged: filled from a Gguf, or by
// hand in tests. Views and arrays point into the file's header and are only used by Create.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "format/gguf.h"

namespace nonstop {

// The tokens that have a part to play, by tokenizer.ggml.*_token_id or by a well-known text.
enum class SpecialRole : uint8_t {
  kBos,
  kEos,
  kUnknown,
  kEndOfTurn,
  kEndOfMessage,
  kFimPrefix,
  kFimSuffix,
  kFimMiddle,
  kFimPad,
  kFimRepository,
  kFimSeparator,
};
inline constexpr size_t kSpecialRoleCount = 11;
const char* SpecialRoleKey(SpecialRole role);  // "tokenizer.ggml.bos_token_id", ...

struct TokenizerSpec {
  std::string_view model;  // tokenizer.ggml.model; "" when absent
  std::string_view pre;    // tokenizer.ggml.pre; "" when absent
  std::optional<GgufStringArray> tokens;
  std::optional<GgufStringArray> merges;
  std::optional<std::vector<float>> scores;
  std::optional<std::vector<int32_t>> types;
  std::array<std::optional<uint64_t>, kSpecialRoleCount> special_ids;
  std::optional<bool> add_bos;
  std::optional<bool> add_eos;
  std::optional<bool> add_space_prefix;
  std::string_view general_name;  // Phi-3's stripping rule goes by it, as in llama.cpp

  std::optional<uint64_t>& special_id(SpecialRole role) {
    return special_ids[static_cast<size_t>(role)];
  }
};

Status ReadTokenizerSpec(const Gguf& gguf, TokenizerSpec* spec);

}  // namespace nonstop
