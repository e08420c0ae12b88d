#include "model/spec.h"

#include <algorithm>
#include <cmath>

#include "base/exact_math.h"
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
      return MakeError(ErrorCode::kMalformed, "Key \"%s\" has value (%g), no number up to 1e30.",
                       Key(suffix).c_str(), *value);
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
  ASSIGN_OR_RETURN(spec->kv_head_count,
                   keys.UintOr("attention.head_count_kv", spec->head_count, 1, spec->head_count));
  ASSIGN_OR_RETURN(spec->context_length, keys.Uint("context_length", 1, limits.context_length));
  if (spec->head_count % spec->kv_head_count != 0) {
    return MakeError(ErrorCode::kMalformed, "KV heads (%u) do not divide the heads (%u).",
                     spec->kv_head_count, spec->head_count);
  }
  ASSIGN_OR_RETURN(spec->head_dim, keys.UintOr("attention.key_length",
                                               spec->width / spec->head_count, 1, limits.head_dim));
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
    return MakeError(ErrorCode::kMalformed, "Key \"%s\" has value (%g), below 0.",
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

// rope.scaling.*: how the frequencies were stretched for a longer context.
struct RopeScaling {
  std::string type;              // none, linear, yarn, longrope
  double frequency_scale = 1.0;  // 1 / factor
  float attention_factor = 1.0f;
  double original_context = 0.0;
  double beta_fast = 32.0;
  double beta_slow = 1.0;
};

Result<RopeScaling> ReadRopeScaling(const KeyReader& keys, const ModelSpec& spec) {
  RopeScaling scaling;
  // Linear where a factor stands alone; "rope.scale_linear" is the older key of the same number.
  ASSIGN_OR_RETURN(scaling.type, keys.StringOr("rope.scaling.type", "linear"));
  if (scaling.type != "none" && scaling.type != "linear" && scaling.type != "longrope" &&
      scaling.type != "yarn") {
    return MakeError(ErrorCode::kUnsupportedArchitecture,
                     "RoPE scaling (%s) is not supported; (none, linear, yarn, longrope) are.",
                     Printable(scaling.type).c_str());
  }
  ASSIGN_OR_RETURN(const float old_factor, keys.FloatOr("rope.scale_linear", 0.0f));
  ASSIGN_OR_RETURN(const float factor, keys.FloatOr("rope.scaling.factor", old_factor));
  ASSIGN_OR_RETURN(scaling.attention_factor, keys.FloatOr("rope.scaling.attn_factor", 1.0f));
  ASSIGN_OR_RETURN(const uint32_t original, keys.UintOr("rope.scaling.original_context_length",
                                                        spec.context_length, 1, UINT32_MAX));
  ASSIGN_OR_RETURN(const float beta_fast, keys.FloatOr("rope.scaling.yarn_beta_fast", 32.0f));
  ASSIGN_OR_RETURN(const float beta_slow, keys.FloatOr("rope.scaling.yarn_beta_slow", 1.0f));
  if (factor < 0.0f || beta_fast <= 0.0f || beta_slow <= 0.0f) {
    return MakeError(ErrorCode::kMalformed, "RoPE scaling factor (%g) or betas are not positive.",
                     static_cast<double>(factor));
  }
  if (scaling.type != "none" && factor > 0.0f) {
    scaling.frequency_scale = 1.0 / static_cast<double>(factor);
  }
  scaling.original_context = original;
  scaling.beta_fast = static_cast<double>(beta_fast);
  scaling.beta_slow = static_cast<double>(beta_slow);
  return scaling;
}

// How much of the pair's own frequency YaRN keeps: 1 for fast pairs, 0 for slow ones, a ramp
// between. Source: Peng et al., "YaRN", 2023, section 3.2, with llama.cpp's rounding of the ramp's
// ends.
double YarnMix(const RopeScaling& scaling, double base, uint32_t rotated_dim, uint32_t pair) {
  const auto correction_dim = [&](double rotations) {
    return rotated_dim * ExactLog(scaling.original_context / (rotations * 2.0 * 3.14159265358979)) /
           (2.0 * ExactLog(base));
  };
  const double low = std::max(0.0, std::floor(correction_dim(scaling.beta_fast)));
  const double high = std::min(rotated_dim - 1.0, std::ceil(correction_dim(scaling.beta_slow)));
  const double ramp = (pair - low) / std::max(0.001, high - low);
  return 1.0 - std::clamp(ramp, 0.0, 1.0);
}

RopeFrequencies MakeRope(const char* name, uint32_t rotated_dim, double base,
                         const RopeScaling& scaling) {
  RopeFrequencies rope{.name = name, .values = {}, .magnitude = scaling.attention_factor};
  const bool is_yarn = scaling.type == "yarn";
  for (uint32_t i = 0; i < rotated_dim / 2; ++i) {
    const double own = ExactPow(base, -2.0 * i / rotated_dim);
    const double mix = is_yarn ? YarnMix(scaling, base, rotated_dim, i) : 0.0;
    rope.values.push_back(static_cast<float>(own * (scaling.frequency_scale * (1.0 - mix) + mix)));
  }
  if (is_yarn) {
    rope.magnitude *= static_cast<float>(1.0 - 0.1 * ExactLog(scaling.frequency_scale));
  }
  return rope;
}

Status ReadRope(const KeyReader& keys, const ArchitectureRow& row, ModelSpec* spec) {
  ASSIGN_OR_RETURN(const float base, keys.FloatOr("rope.freq_base", 10000.0f));
  ASSIGN_OR_RETURN(const float local_base, keys.FloatOr("rope.freq_base_swa", row.local_rope_base));
  if (!(base > 1.0f) || (row.local_rope_base != 0.0f && !(local_base > 1.0f))) {
    return MakeError(ErrorCode::kMalformed, "RoPE base (%g or %g) is not above 1.",
                     static_cast<double>(base), static_cast<double>(local_base));
  }
  ASSIGN_OR_RETURN(const RopeScaling scaling, ReadRopeScaling(keys, *spec));
  spec->ropes.push_back(MakeRope("rope", spec->rotated_dim, static_cast<double>(base), scaling));
  if (row.local_rope_base != 0.0f) {  // never scaled
    spec->ropes.push_back(
        MakeRope("rope.local", spec->rotated_dim, static_cast<double>(local_base), {}));
  }
  return {};
}

// Which layers slide: "attention.sliding_window_pattern" as a list of booleans, or as a period n
// (of every n layers the last is global), or the architecture's own period.
Result<std::vector<int32_t>> ReadSlidingLayers(const Gguf& metadata, const KeyReader& keys,
                                               const ArchitectureRow& row, uint32_t layer_count) {
  const std::string key = keys.Key("attention.sliding_window_pattern");
  const GgufValue* value = metadata.Find(key);
  uint32_t period = row.window_pattern;
  if (value != nullptr && value->type == GgufType::kArray) {
    ASSIGN_OR_RETURN(const std::optional<std::vector<int32_t>> slides, metadata.FindIntArray(key));
    if (!slides || slides->size() != layer_count) {
      return MakeError(ErrorCode::kMalformed, "Key \"%s\" does not have (%u) entries.", key.c_str(),
                       layer_count);
    }
    return *slides;
  }
  if (value != nullptr) {
    ASSIGN_OR_RETURN(period, keys.Uint("attention.sliding_window_pattern", 1, layer_count + 1));
  }
  std::vector<int32_t> slides(layer_count);
  for (uint32_t i = 0; i < layer_count; ++i) {
    slides[i] = period != 0 && i % period < period - 1 ? 1 : 0;
  }
  return slides;
}

Status ReadLayers(const Gguf& metadata, const KeyReader& keys, const ArchitectureRow& row,
                  ModelSpec* spec) {
  spec->layers.resize(spec->layer_count);
  if (row.window_pattern == 0 || row.ignores_window) return {};
  ASSIGN_OR_RETURN(const uint32_t window,
                   keys.UintOr("attention.sliding_window", row.default_window, 0, UINT32_MAX));
  if (window == 0) return {};
  ASSIGN_OR_RETURN(const std::vector<int32_t> slides,
                   ReadSlidingLayers(metadata, keys, row, spec->layer_count));
  for (uint32_t i = 0; i < spec->layer_count; ++i) {
    if (slides[i] == 0) continue;
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
  ASSIGN_OR_RETURN(const std::optional<std::string_view> name,
                   files.metadata().FindString("general.name"));
  if (name) spec.name = *name;
  const KeyReader keys(files.metadata(), *row);
  TRY(ReadSizes(keys, limits, &spec));
  TRY(ReadScales(keys, *row, &spec));
  TRY(ReadRope(keys, *row, &spec));
  TRY(ReadLayers(files.metadata(), keys, *row, &spec));
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
  const char* name =
      context_length > original_length ? "rope_factors_long.weight" : "rope_factors_short.weight";
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
