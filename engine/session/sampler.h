// From logits to a token: llama.cpp's samplers in llama.cpp's default order. Source:
// common/common.h (common_params_sampling), common/sampling.cpp and src/llama-sampler.cpp
// (llama-sampling.cpp before 2026): logit bias; penalties; dry, top_n_sigma (not here); top_k;
// typ_p (not here); top_p; min_p; xtc (not here); temperature; draw. Defaults are llama.cpp's too.
// Bit-identical everywhere: only IEEE operations in a written order and the exp and log of
// exact_math.h, with ties broken by the smaller id. The random number is Philox's (philox.h) and
// not llama.cpp's, so equal seeds give other texts than there, from the same distribution.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "session/philox.h"
#include "session/sampler_select.h"
#include "text/tokenizer.h"

namespace nonstop {

struct LogitBias {
  TokenId id;
  float bias;  // -inf forbids
};

struct SamplingOptions {
  float temperature = 0.8f;       // <= 0: greedy
  int32_t top_k = 40;             // <= 0: off
  float top_p = 0.95f;            // >= 1: off
  float min_p = 0.05f;            // <= 0: off
  float repeat_penalty = 1.0f;    // 1: off
  float presence_penalty = 0.0f;  // may be negative, as may the next
  float frequency_penalty = 0.0f;
  int32_t penalty_last_n = 64;  // 0: off, -1: whole context
  uint64_t seed = 0;
};

bool HasPenalties(const SamplingOptions& options);
// kInvalidArgument; the sentence names the field and its value (NaN, infinite, repeat_penalty <= 0,
// top_p < 0, min_p > 1, penalty_last_n < -1).
Status CheckSamplingOptions(const SamplingOptions& options);
// kInvalidArgument for an id outside the vocabulary and a bias that is NaN or +inf.
Status CheckLogitBiases(std::span<const LogitBias> biases, size_t vocabulary_size);

struct TokenProbability {
  TokenId id;
  float logit;    // raw, before any sampler
  float logprob;  // nats, over the whole vocabulary, of the raw logits
};

// The `count` best of raw logits, best first, ties by the smaller id; log-sum-exp in f64
// order-fixed. kBadWeights when a logit is NaN or +inf, or all are -inf.
Result<std::vector<TokenProbability>> TopLogprobs(std::span<const float> logits, uint32_t count);

// A token that survived the samplers; its probability is weight over the sum of the weights.
struct Candidate {
  TokenId id;
  float logit;    // after bias and penalties
  double weight;  // exp((logit - best logit) / temperature)
};

class Sampler {
 public:
  // The options must have passed CheckSamplingOptions.
  Sampler(const SamplingOptions& options, std::vector<LogitBias> biases);

  // `history`: prompt and generated tokens so far, oldest first (penalties look at the last
  // penalty_last_n; ids outside the vocabulary are passed over). `token_index`: 0 for the first
  // generated token. Logits are not changed. The result is a function of the arguments only.
  // kBadWeights when a logit is NaN or +inf or all are -inf; kInvalidArgument when the logit biases
  // are wrong or leave nothing to choose.
  Result<TokenId> Sample(std::span<const float> logits, std::span<const TokenId> history,
                         uint64_t token_index);

  // What Sample draws from, in the order of its draw: best first, or by id when top-k and top-p
  // are both off (as in llama.cpp: nothing has sorted then). Greedy: one candidate.
  // Valid until the next call.
  Result<std::span<const Candidate>> Distribution(std::span<const float> logits,
                                                  std::span<const TokenId> history);

 private:
  struct Adjusted {
    std::span<const float> logits;
    sampling::ScoredToken best;
  };

  Result<Adjusted> Adjust(std::span<const float> logits, std::span<const TokenId> history);
  void ApplyBiases();
  void ApplyPenalties(std::span<const TokenId> history);
  void Filter(const Adjusted& adjusted);
  void SelectTopP(const Adjusted& adjusted);
  void SelectTopPOfAll(const Adjusted& adjusted);
  bool CutTopP(double target);
  void CutMinP(float best_logit);
  void AddAll(const Adjusted& adjusted);

  SamplingOptions options_;
  std::vector<LogitBias> biases_;
  // Scratch, kept for its memory only.
  std::vector<float> adjusted_;
  std::vector<uint32_t> counts_;  // all 0 between calls
  std::vector<TokenId> seen_;
  std::vector<sampling::ScoredToken> scored_;
  std::vector<Candidate> candidates_;
};

}  // namespace nonstop
