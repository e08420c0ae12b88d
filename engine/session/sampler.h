// From logits to a token: llama.cpp's samplers in llama.cpp's default order:
// logit bias, penalties, (dry, xtc, typical: not here), top-k, top-p, min-p, temperature, draw.
// Defaults are llama.cpp's common_params_sampling.
// Bit-identical everywhere: only IEEE additions, multiplications, comparisons, and the exp/log of
// this file (own polynomials, no libm, no fused multiply-add), with ties broken by the smaller id.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "text/tokenizer.h"

namespace nonstop {

struct LogitBias {
  TokenId id;
  float bias;  // -inf forbids
};

struct SamplingOptions {
  float temperature = 0.8f;        // <= 0: greedy
  int32_t top_k = 40;              // <= 0: off
  float top_p = 0.95f;             // >= 1: off
  float min_p = 0.05f;             // <= 0: off
  float repeat_penalty = 1.0f;     // 1: off
  float presence_penalty = 0.0f;
  float frequency_penalty = 0.0f;
  int32_t penalty_last_n = 64;     // 0: off, -1: whole context
  uint64_t seed = 0;
};

// An error names the field and its value (NaN, negative penalties, top_p < 0, ...).
Status CheckSamplingOptions(const SamplingOptions& options);

struct TokenProbability {
  TokenId id;
  float logit;    // raw, before any sampler
  float logprob;  // nats, over the whole vocabulary, of the raw logits
};

// The `count` best of raw logits, best first, ties by the smaller id; log-sum-exp in f64 order-fixed.
// kBadWeights when a logit is NaN or +inf.
Result<std::vector<TokenProbability>> TopLogprobs(std::span<const float> logits, uint32_t count);

// A uniform number in [0, 1) from Philox4x32-10, a function of (seed, token_index) only.
// Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
float PhiloxUniform(uint64_t seed, uint64_t token_index);

class Sampler {
 public:
  Sampler(const SamplingOptions& options, std::vector<LogitBias> biases);

  // `history`: prompt and generated tokens so far, oldest first (penalties look at the last
  // penalty_last_n). `token_index`: 0 for the first generated token. Logits are not changed.
  // kBadWeights when a logit is NaN or +inf, or nothing is left to choose.
  Result<TokenId> Sample(std::span<const float> logits, std::span<const TokenId> history,
                         uint64_t token_index);

 private:
  SamplingOptions options_;
  std::vector<LogitBias> biases_;
};

}  // namespace nonstop
