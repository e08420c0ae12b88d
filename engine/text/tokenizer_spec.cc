#include "text/tokenizer_spec.h"

namespace nonstop {
namespace {

constexpr const char* kRoleKeys[kSpecialRoleCount] = {
    "tokenizer.ggml.bos_token_id",     "tokenizer.ggml.eos_token_id",
    "tokenizer.ggml.unknown_token_id", "tokenizer.ggml.eot_token_id",
    "tokenizer.ggml.eom_token_id",     "tokenizer.ggml.fim_pre_token_id",
    "tokenizer.ggml.fim_suf_token_id", "tokenizer.ggml.fim_mid_token_id",
    "tokenizer.ggml.fim_pad_token_id", "tokenizer.ggml.fim_rep_token_id",
    "tokenizer.ggml.fim_sep_token_id",
};

struct FlagKey {
  const char* key;
  std::optional<bool> TokenizerSpec::* field;
};
constexpr FlagKey kFlagKeys[] = {
    {"tokenizer.ggml.add_bos_token", &TokenizerSpec::add_bos},
    {"tokenizer.ggml.add_eos_token", &TokenizerSpec::add_eos},
    {"tokenizer.ggml.add_space_prefix", &TokenizerSpec::add_space_prefix},
};

struct StringKey {
  const char* key;
  std::string_view TokenizerSpec::* field;
};
constexpr StringKey kStringKeys[] = {
    {"tokenizer.ggml.model", &TokenizerSpec::model},
    {"tokenizer.ggml.pre", &TokenizerSpec::pre},
    {"general.name", &TokenizerSpec::general_name},
};

struct StringArrayKey {
  const char* key;
  std::optional<GgufStringArray> TokenizerSpec::* field;
};
constexpr StringArrayKey kStringArrayKeys[] = {
    {"tokenizer.ggml.tokens", &TokenizerSpec::tokens},
    {"tokenizer.ggml.merges", &TokenizerSpec::merges},
};

}  // namespace

const char* SpecialRoleKey(SpecialRole role) { return kRoleKeys[static_cast<size_t>(role)]; }

Status ReadTokenizerSpec(const Gguf& gguf, TokenizerSpec* spec) {
  for (const auto& [key, field] : kStringKeys) {
    ASSIGN_OR_RETURN(const auto text, gguf.FindString(key));
    spec->*field = text.value_or("");
  }
  for (const auto& [key, field] : kStringArrayKeys) {
    ASSIGN_OR_RETURN(spec->*field, gguf.FindStringArray(key));
  }
  for (const auto& [key, field] : kFlagKeys) {
    ASSIGN_OR_RETURN(spec->*field, gguf.FindBool(key));
  }
  for (size_t role = 0; role < kSpecialRoleCount; ++role) {
    ASSIGN_OR_RETURN(spec->special_ids[role], gguf.FindUint(kRoleKeys[role]));
  }
  ASSIGN_OR_RETURN(spec->scores, gguf.FindFloatArray("tokenizer.ggml.scores"));
  ASSIGN_OR_RETURN(spec->types, gguf.FindIntArray("tokenizer.ggml.token_type"));
  return {};
}

}  // namespace nonstop
