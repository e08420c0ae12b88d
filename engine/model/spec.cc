#include "model/spec.h"

#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "model/registry.h"

namespace nonstop {
namespace {

// Reads "<architecture>.<suffix>" keys, with the sentence for what is missing or out of range.
class KeyReader {
 public:
  KeyReader(const Gguf& gguf, const ArchitectureRow& row) : gguf_(gguf), prefix_(row.name) {}

  std::string Key(const char* suffix) const { return prefix_ + "." + suffix; }

  Result<uint32_t> Uint(const char* suffix, uint32_t least, uint32_t most) const {
    ASSIGN_OR_RETURN(const std::optional<uint64_t> value, gguf_.FindUint(Key(suffix)));
    if (!value) {
      return MakeError(ErrorCode::kMissingMetadata, "Key \"%s\" is missing.", Key(suffix).c_str());
    }
    return InRange(suffix, *value, least, most);
  }
  Result<uint32_t> UintOr(const char* suffix, uint32_t fallback, uint32_t least,
                          uint32_t most) const {
    ASSIGN_OR_RETURN(const std::optional<uint64_t> value, gguf_.FindUint(Key(suffix)));
    if (!value) return fallback;
    return InRange(suffix, *value, least, most);
  }
  Result<float> FloatOr(const char* suffix, float fallback) const {
    ASSIGN_OR_RETURN(const std::optional<double> value, gguf_.FindFloat(Key(suffix)));
    if (!value) return fallback;
    if (!std::isfinite(*value) || std::abs(*value) > 1e30) {
      return MakeError(ErrorCode::kMalformed, "Key \"%s\" has value (%g).", Key(suffix).c_str(),
                       *value);
    }
    return static_cast<float>(*value);
  }
  Result<std::string> StringOr(const char* suffix, const char* fallback) const {
    ASSIGN_OR_RETURN(const std::optional<std::string_view> value, gguf_.FindString(Key(suffix)));
    return value ? std::string(*value) : std::string(fallback);
  }

 private:
  Result<uint32_t> InRange(const char* suffix, uint64_t value, uint32_t least,
                           uint32_t most) const {
    if (value < least || value > most) {
      return MakeError(ErrorCode::kMalformed, "Key \"%s\" has value (%llu), outside (%u to %u).",
                       Key(suffix).c_str(), static_cast<unsigned long long>(value), least, most);
    }
    return static_cast<uint32_t>(value);
  }

  const Gguf& gguf_;
  std::string prefix_;
};

Status ReadSizes(const KeyReader& keys, const ModelLimits& limits, ModelSpec* spec) {
  ASSIGN_OR_RETURN(spec->layer_count, keys.Uint("block_count", 1, limits.layer_count));
  ASSIGN_OR_RETURN(spec->width, keys.Uint("embedding_length", 1, limits.width));
  ASSIGN_OR_RETURN(spec->ff_width, keys.Uint("feed_forward_length", 1, limits.ff_width));
  ASSIGN_OR_RETURN(spec->head_count, keys.Uint("attention.head_count", 1, limits.head_count));
  ASSIGN_OR_RETURN(spec->kv_head_count, keys.UintOr("attention.head_count_kv", spec->head_count, 1,
                                                    spec->head_count));
  ASSIGN_OR_RETURN(spec->context_length, keys.Uint("context_length", 1, limits.context_length));
  if (spec->head_count % spec->kv_head_count != 0) {
    return MakeError(ErrorCode::kMalformed, "KV heads (%u) do not divide the heads (%u).",
                     spec->kv_head_count, spec->head_count);
  }
  ASSIGN_OR_RETURN(spec->head_dim,
                   keys.UintOr("attention.key_length", spec->width / spec->head_count, 1,
                               limits.head_dim));
  if (spec->head_dim == 0 || spec->head_dim > limits.head_dim || spec->head_dim % 8 != 0) {
    // The kernels split Q, K and V between heads, and weight rows in groups of 8.
    return MakeError(ErrorCode::kMalformed, "Head dimension (%u) is no multiple of 8 up to (%u).",
                     spec->head_dim, limits.head_dim);
  }
  ASSIGN_OR_RETURN(const uint32_t value_dim,
                   keys.UintOr("attention.value_length", spec->head_dim, 1, limits.head_dim));
  if (value_dim != spec->head_dim) {
    return MakeError(ErrorCode::kMalformed, "Value length (%u) differs from key length (%u).",
                     value_dim, spec->head_dim);
  }
  ASSIGN_OR_RETURN(spec->rotated_dim,
                   keys.UintOr("rope.dimension_count", spec->head_dim, 2, spec->head_dim));
  if (spec->rotated_dim % 2 != 0) {
    return MakeError(ErrorCode::kMalformed, "Key \"%s\" has odd value (%u).",
                     keys.Key("rope.dimension_count").c_str(), spec->rotated_dim);
  }
  return {};
}

Status ReadScales(const KeyReader& keys, const ArchitectureRow& row, ModelSpec* spec) {
  ASSIGN_OR_RETURN(spec->norm_eps, keys.FloatOr("attention.layer_norm_rms_epsilon", 1e-5f));
  if (!(spec->norm_eps >= 0.0f)) {
    return MakeError(ErrorCode::kMalformed, "Key \"%s\" has value (%g).",
                     keys.Key("attention.layer_norm_rms_epsilon").c_str(),
                     static_cast<double>(spec->norm_eps));
  }
  ASSIGN_OR_RETURN(spec->attention_soft_cap,
                   keys.FloatOr("attn_logit_softcapping", row.default_attention_soft_cap));
  ASSIGN_OR_RETURN(spec->final_soft_cap,
                   keys.FloatOr("final_logit_softcapping", row.default_final_soft_cap));
  if (row.default_attention_soft_cap == 0.0f) spec->attention_soft_cap = 0.0f;
  const bool is_wide =
      row.wide_scale_layer_count != 0 && spec->layer_count == row.wide_scale_layer_count;
  const uint32_t scale_dim = is_wide ? spec->width / spec->head_count : spec->head_dim;
  ASSIGN_OR_RETURN(spec->attention_scale, keys.FloatOr("attention.scale", 0.0f));
  if (spec->attention_scale == 0.0f) {
    spec->attention_scale = 1.0f / std::sqrt(static_cast<float>(scale_dim));
  }
  if (row.scales_embedding) spec->embedding_scale = std::sqrt(static_cast<float>(spec->width));
  return {};
}

RopeFrequencies MakeRope(const char* name, uint32_t rotated_dim, double base, double scale) {
  RopeFrequencies rope{.name = name, .values = {}};
  for (uint32_t i = 0; i < rotated_dim / 2; ++i) {
    const double exponent = -2.0 * i / rotated_dim;
    rope.values.push_back(static_cast<float>(scale * std::pow(base, exponent)));
  }
  return rope;
}

Status ReadRope(const KeyReader& keys, const ArchitectureRow& row, ModelSpec* spec) {
  ASSIGN_OR_RETURN(const float base, keys.FloatOr("rope.freq_base", 10000.0f));
  ASSIGN_OR_RETURN(const std::string scaling, keys.StringOr("rope.scaling.type", "none"));
  // "rope.scale_linear" is the older key of the same number.
  ASSIGN_OR_RETURN(const float old_factor, keys.FloatOr("rope.scale_linear", 1.0f));
  ASSIGN_OR_RETURN(const float factor, keys.FloatOr("rope.scaling.factor", old_factor));
  ASSIGN_OR_RETURN(spec->rope_magnitude, keys.FloatOr("rope.scaling.attn_factor", 1.0f));
  if (!(base > 0.0f) || !(factor >= 0.0f)) {
    return MakeError(ErrorCode::kMalformed, "RoPE base (%g) or scaling factor (%g) is negative.",
                     static_cast<double>(base), static_cast<double>(factor));
  }
  if (scaling != "none" && scaling != "linear" && scaling != "longrope") {
    return MakeError(ErrorCode::kUnsupportedArchitecture,
                     "RoPE scaling (%s) is not supported; (none, linear, longrope) are.",
                     Printable(scaling).c_str());
  }
  const bool is_linear = scaling == "linear" || (scaling == "none" && old_factor != 1.0f);
  const double scale = is_linear && factor > 0.0f ? 1.0 / static_cast<double>(factor) : 1.0;
  spec->ropes.push_back(MakeRope("rope", spec->rotated_dim, static_cast<double>(base), scale));
  if (row.local_rope_base != 0.0f) {
    ASSIGN_OR_RETURN(const float local_base,
                     keys.FloatOr("rope.freq_base_swa", row.local_rope_base));
    spec->ropes.push_back(
        MakeRope("rope.local", spec->rotated_dim, static_cast<double>(local_base), 1.0));
  }
  return {};
}

Status ReadLayers(const KeyReader& keys, const ArchitectureRow& row, ModelSpec* spec) {
  ASSIGN_OR_RETURN(const uint32_t window,
                   keys.UintOr("attention.sliding_window", row.default_window, 0, UINT32_MAX));
  spec->layers.resize(spec->layer_count);
  if (row.window_pattern == 0 || row.ignores_window || window == 0) return {};
  for (uint32_t i = 0; i < spec->layer_count; ++i) {
    const bool slides = i % row.window_pattern < row.window_pattern - 1;
    if (!slides) continue;
    spec->layers[i].window = window;
    spec->layers[i].rope_index = row.local_rope_base != 0.0f ? 1 : 0;
  }
  return {};
}

}  // namespace

Result<ModelSpec> ReadModelSpec(const GgufSet& files, const ModelLimits& limits) {
  ASSIGN_OR_RETURN(const std::optional<std::string_view> architecture,
                   files.metadata().FindString("general.architecture"));
  if (!architecture) {
    return MakeError(ErrorCode::kMissingMetadata, "Key \"general.architecture\" is missing.");
  }
  const ArchitectureRow* row = FindArchitecture(*architecture);
  if (row == nullptr) {
    return MakeError(ErrorCode::kUnsupportedArchitecture,
                     "Architecture (%s) is not supported; (llama, qwen2, qwen3, gemma2, gemma3, "
                     "phi3) are.",
                     Printable(*architecture).c_str());
  }
  ModelSpec spec;
  spec.architecture = row;
  ASSIGN_OR_RETURN(const std::optional<std::string_view> name, files.metadata().FindString("general.name"));
  if (name) spec.name = *name;
  const KeyReader keys(files.metadata(), *row);
  TRY(ReadSizes(keys, limits, &spec));
  TRY(ReadScales(keys, *row, &spec));
  TRY(ReadRope(keys, *row, &spec));
  TRY(ReadLayers(keys, *row, &spec));
  const GgufTensor* embedding = files.FindTensor("token_embd.weight");
  if (embedding == nullptr) {
    return MakeError(ErrorCode::kMissingTensor, "Tensor \"token_embd.weight\" is missing.");
  }
  if (embedding->row_count() == 0 || embedding->row_count() > limits.vocabulary_size) {
    return MakeError(ErrorCode::kMalformed, "Vocabulary (%llu) is not within (1 to %u).",
                     static_cast<unsigned long long>(embedding->row_count()),
                     limits.vocabulary_size);
  }
  spec.vocabulary_size = static_cast<uint32_t>(embedding->row_count());
  spec.has_tied_head = files.FindTensor("output.weight") == nullptr;
  return spec;
}

std::string RopeFactorTensor(const GgufSet& files, const ModelSpec& spec, uint32_t context_length) {
  if (files.FindTensor("rope_freqs.weight") != nullptr) return "rope_freqs.weight";
  const std::string key =
      std::string(spec.architecture->name) + ".rope.scaling.original_context_length";
  const auto original = files.metadata().FindUint(key);
  const uint64_t original_length = original.ok() && *original ? **original : spec.context_length;
  const char* name = context_length > original_length ? "rope_factors_long.weight"
                                                      : "rope_factors_short.weight";
  return files.FindTensor(name) != nullptr ? name : "";
}

Status ApplyRopeFactors(const std::vector<float>& factors, ModelSpec* spec) {
  for (RopeFrequencies& rope : spec->ropes) {
    if (factors.size() != rope.values.size()) {
      return MakeError(ErrorCode::kWrongShape, "RoPE factors (%zu) are not (%zu).", factors.size(),
                       rope.values.size());
    }
    for (size_t i = 0; i < factors.size(); ++i) {
      if (!(factors[i] > 0.0f) || !std::isfinite(factors[i])) {
        return MakeError(ErrorCode::kBadWeights, "RoPE factor (%g) at index (%zu) is not positive.",
                         static_cast<double>(factors[i]), i);
      }
      rope.values[i] /= factors[i];
    }
  }
  return {};
}

}  // namespace nonstop
