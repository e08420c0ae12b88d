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

Status ReadArrays(const Gguf& gguf, TokenizerSpec* spec) {
  ASSIGN_OR_RETURN(const auto tokens, gguf.FindStringArray("tokenizer.ggml.tokens"));
  if (!tokens) {
    return MakeError(ErrorCode::kMissingMetadata,
                     "The file has no vocabulary (key \"tokenizer.ggml.tokens\").");
  }
  spec->tokens = *tokens;
  ASSIGN_OR_RETURN(spec->merges, gguf.FindStringArray("tokenizer.ggml.merges"));
  ASSIGN_OR_RETURN(spec->scores, gguf.FindFloatArray("tokenizer.ggml.scores"));
  ASSIGN_OR_RETURN(spec->types, gguf.FindIntArray("tokenizer.ggml.token_type"));
  return {};
}

Status ReadFlagsAndIds(const Gguf& gguf, TokenizerSpec* spec) {
  ASSIGN_OR_RETURN(spec->add_bos, gguf.FindBool("tokenizer.ggml.add_bos_token"));
  ASSIGN_OR_RETURN(spec->add_eos, gguf.FindBool("tokenizer.ggml.add_eos_token"));
  ASSIGN_OR_RETURN(spec->add_space_prefix, gguf.FindBool("tokenizer.ggml.add_space_prefix"));
  for (size_t role = 0; role < kSpecialRoleCount; ++role) {
    ASSIGN_OR_RETURN(spec->special_ids[role], gguf.FindUint(kRoleKeys[role]));
  }
  return {};
}

}  // namespace

const char* SpecialRoleKey(SpecialRole role) { return kRoleKeys[static_cast<size_t>(role)]; }

Result<TokenizerSpec> ReadTokenizerSpec(const Gguf& gguf) {
  TokenizerSpec spec;
  ASSIGN_OR_RETURN(const auto model, gguf.FindString("tokenizer.ggml.model"));
  if (!model) {
    return MakeError(ErrorCode::kMissingMetadata,
                     "The file does not say which tokenizer it needs (key "
                     "\"tokenizer.ggml.model\").");
  }
  spec.model = *model;
  ASSIGN_OR_RETURN(const auto pre, gguf.FindString("tokenizer.ggml.pre"));
  spec.pre = pre.value_or("");
  ASSIGN_OR_RETURN(const auto name, gguf.FindString("general.name"));
  spec.general_name = name.value_or("");
  TRY(ReadArrays(gguf, &spec));
  TRY(ReadFlagsAndIds(gguf, &spec));
  return spec;
}

}  // namespace nonstop
