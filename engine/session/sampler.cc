// The sampler chain of sampler.h. The list of tokens shrinks in scored_ (raw scores), becomes
// candidates_ with weights at the temperature, and one weight is hit by the random number.
#include "session/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/exact_math.h"

namespace nonstop {
namespace {

using sampling::LogitScan;
using sampling::ScoredToken;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kMax = std::numeric_limits<float>::max();

bool IsFinite(float value) { return value >= -kMax && value <= kMax; }

// A finite logit stays finite whatever is added to it.
float Bound(float value) { return std::clamp(value, -kMax, kMax); }

Error BadLogit(std::span<const float> logits, TokenId id) {
  return MakeError(
      ErrorCode::kBadWeights,
      "The logit of token (%d) is %s, so the weights or the numbers computed from them "
      "are damaged.",
      id, logits[static_cast<size_t>(id)] > 0 ? "infinite" : "not a number");
}

Error NothingLeft(bool has_biases) {
  if (has_biases) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "The logit biases forbid every token that the model could choose.");
  }
  return MakeError(ErrorCode::kBadWeights,
                   "All logits are minus infinity, so there is no token to choose.");
}

Error NoLogits() {
  return MakeError(ErrorCode::kInvalidArgument, "There are no logits to choose a token from.");
}

Status CheckNumber(const char* name, float value, float smallest, float largest) {
  if (value >= smallest && value <= largest) return {};
  if (!IsFinite(value)) {
    return MakeError(ErrorCode::kInvalidArgument, "The option %s (%g) must be a finite number.",
                     name, static_cast<double>(value));
  }
  return MakeError(ErrorCode::kInvalidArgument, "The option %s (%g) must be %s %g.", name,
                   static_cast<double>(value), value < smallest ? "at least" : "at most",
                   static_cast<double>(value < smallest ? smallest : largest));
}

}  // namespace

Status CheckSamplingOptions(const SamplingOptions& options) {
  TRY(CheckNumber("temperature", options.temperature, -kMax, kMax));
  TRY(CheckNumber("top_p", options.top_p, 0.0f, kMax));
  TRY(CheckNumber("min_p", options.min_p, -kMax, 1.0f));
  TRY(CheckNumber("repeat_penalty", options.repeat_penalty, -kMax, kMax));
  TRY(CheckNumber("presence_penalty", options.presence_penalty, -kMax, kMax));
  TRY(CheckNumber("frequency_penalty", options.frequency_penalty, -kMax, kMax));
  if (options.repeat_penalty <= 0.0f) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "The option repeat_penalty (%g) must be greater than 0.",
                     static_cast<double>(options.repeat_penalty));
  }
  if (options.penalty_last_n < -1) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "The option penalty_last_n (%d) must be -1 (the whole context), 0 (off) or a "
                     "number of tokens.",
                     options.penalty_last_n);
  }
  return {};
}

Status CheckLogitBiases(std::span<const LogitBias> biases, size_t vocabulary_size) {
  for (const LogitBias& bias : biases) {
    if (bias.id < 0 || static_cast<size_t>(bias.id) >= vocabulary_size) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "The token id (%d) of a logit bias is outside the vocabulary (%llu tokens).",
                       bias.id, static_cast<unsigned long long>(vocabulary_size));
    }
    if (!(bias.bias <= kMax)) {
      return MakeError(
          ErrorCode::kInvalidArgument,
          "The logit bias (%g) of token (%d) must be a finite number or minus infinity.",
          static_cast<double>(bias.bias), bias.id);
    }
  }
  return {};
}

Result<std::vector<TokenProbability>> TopLogprobs(std::span<const float> logits, uint32_t count) {
  if (logits.empty()) return NoLogits();
  const LogitScan scan = sampling::ScanLogits(logits);
  if (scan.first_bad != kNoToken) return BadLogit(logits, scan.first_bad);
  if (scan.best.id == kNoToken) return NothingLeft(false);
  const double log_sum = ExactLog(sampling::SumOfExp(logits, scan.best.logit));
  std::vector<ScoredToken> best;
  sampling::SelectBest(logits, count, &best);
  std::vector<TokenProbability> result;
  result.reserve(best.size());
  for (const ScoredToken& token : best) {
    const double below_best = static_cast<double>(token.logit) - scan.best.logit;
    result.push_back({token.id, token.logit, static_cast<float>(below_best - log_sum)});
  }
  return result;
}

Sampler::Sampler(const SamplingOptions& options, std::vector<LogitBias> biases)
    : options_(options), biases_(std::move(biases)) {
  CHECK(CheckSamplingOptions(options).ok());
}

bool HasPenalties(const SamplingOptions& options) {
  return options.penalty_last_n != 0 &&
         (options.repeat_penalty != 1.0f || options.presence_penalty != 0.0f ||
          options.frequency_penalty != 0.0f);
}

// Bias and penalties; copies the logits only when there are any.
Result<Sampler::Adjusted> Sampler::Adjust(std::span<const float> logits,
                                          std::span<const TokenId> history) {
  if (logits.empty()) return NoLogits();
  TRY(CheckLogitBiases(biases_, logits.size()));
  Adjusted result{logits, {}};
  if (!biases_.empty() || (HasPenalties(options_) && !history.empty())) {
    adjusted_.assign(logits.begin(), logits.end());
    ApplyBiases();
    if (HasPenalties(options_)) ApplyPenalties(history);
    result.logits = adjusted_;
  }
  const LogitScan scan = sampling::ScanLogits(result.logits);
  if (scan.first_bad != kNoToken) return BadLogit(logits, scan.first_bad);
  if (scan.best.id == kNoToken) return NothingLeft(!biases_.empty());
  result.best = scan.best;
  return result;
}

// Several biases of one token add up. NaN and infinities stay, to be found by the scan.
void Sampler::ApplyBiases() {
  for (const LogitBias& bias : biases_) {
    float& logit = adjusted_[static_cast<size_t>(bias.id)];
    if (IsFinite(logit)) logit = bias.bias == -kInfinity ? -kInfinity : Bound(logit + bias.bias);
  }
}

// llama.cpp's rule: the repeat penalty multiplies a logit that is not positive and divides one that
// is; then count * frequency + presence is taken off. A penalty counts in the last n tokens.
void Sampler::ApplyPenalties(std::span<const TokenId> history) {
#pragma clang fp contract(off)
  if (options_.penalty_last_n > 0) {
    const size_t last_n = static_cast<size_t>(options_.penalty_last_n);
    history = history.last(std::min(history.size(), last_n));
  }
  counts_.resize(adjusted_.size(), 0);
  seen_.clear();
  for (const TokenId id : history) {
    if (id < 0 || static_cast<size_t>(id) >= adjusted_.size()) continue;
    if (counts_[static_cast<size_t>(id)]++ == 0) seen_.push_back(id);
  }
  for (const TokenId id : seen_) {
    const float count = static_cast<float>(counts_[static_cast<size_t>(id)]);
    counts_[static_cast<size_t>(id)] = 0;
    float& logit = adjusted_[static_cast<size_t>(id)];
    if (!IsFinite(logit)) continue;
    const float scaled =
        Bound(logit <= 0.0f ? logit * options_.repeat_penalty : logit / options_.repeat_penalty);
    const float frequency = Bound(count * options_.frequency_penalty);
    logit = Bound(scaled - Bound(frequency + options_.presence_penalty));
  }
}

// Top-k, top-p and min-p; fills scored_ with at least the best token, and none at -infinity.
void Sampler::Filter(const Adjusted& adjusted) {
  if (options_.top_k > 0) {
    sampling::SelectBest(adjusted.logits, static_cast<size_t>(options_.top_k), &scored_);
  }
  if (options_.top_p < 1.0f) {
    SelectTopP(adjusted);
  } else if (options_.top_k <= 0) {
    AddAll(adjusted);
    return;
  }
  CutMinP(adjusted.best.logit);
  while (scored_.back().logit == -kInfinity) scored_.pop_back();
}

// Keeps the shortest prefix of the sorted list whose probabilities reach top_p.
void Sampler::SelectTopP(const Adjusted& adjusted) {
#pragma clang fp contract(off)
  const double best = adjusted.best.logit;
  double sum = 0.0;
  if (options_.top_k > 0) {
    for (const ScoredToken& token : scored_) sum += ExactExp(token.logit - best);
    CutTopP(options_.top_p * sum);
    return;
  }
  SelectTopPOfAll(adjusted);
}

// Without top-k only the tokens that matter are sorted: a histogram says how far down they reach.
// It is a guess (its sums round otherwise), so more are taken until the target is reached.
void Sampler::SelectTopPOfAll(const Adjusted& adjusted) {
#pragma clang fp contract(off)
  using sampling::MassHistogram;
  const MassHistogram histogram = sampling::MeasureMass(adjusted.logits, adjusted.best.logit);
  const double target = options_.top_p * histogram.sum;
  double mass = 0.0;
  for (int bucket = 0; bucket < MassHistogram::kBuckets - 1; ++bucket) {
    mass += histogram.mass[bucket];
    if (mass < target) continue;
    const float distance = static_cast<float>(bucket + 1) / MassHistogram::kBucketsPerNat;
    sampling::SelectAtLeast(adjusted.logits, adjusted.best.logit - distance, &scored_);
    if (CutTopP(target)) return;
  }
  sampling::SelectBest(adjusted.logits, adjusted.logits.size(), &scored_);
  CutTopP(target);
}

// Shortens the list to where the sum of exp(logit - best) reaches the target; false if it does not.
bool Sampler::CutTopP(double target) {
#pragma clang fp contract(off)
  const double best = scored_.front().logit;
  double reached = 0.0;
  for (size_t i = 0; i < scored_.size(); ++i) {
    reached += ExactExp(scored_[i].logit - best);
    if (reached >= target) {
      scored_.resize(i + 1);
      return true;
    }
  }
  return false;
}

// Of a sorted list. The limit on p / p_best is one on the logit; in f32, as in llama.cpp.
void Sampler::CutMinP(float best_logit) {
  if (options_.min_p <= 0.0f) return;
  const float smallest = best_logit + static_cast<float>(ExactLog(options_.min_p));
  const auto end = std::find_if(scored_.begin() + 1, scored_.end(),
                                [&](const ScoredToken& token) { return token.logit < smallest; });
  scored_.erase(end, scored_.end());
}

// Without top-k and top-p nothing needs an order: the tokens that min-p leaves, by id.
void Sampler::AddAll(const Adjusted& adjusted) {
  scored_.clear();
  float smallest = -kMax;
  if (options_.min_p > 0.0f) {
    smallest =
        std::max(smallest, adjusted.best.logit + static_cast<float>(ExactLog(options_.min_p)));
  }
  for (size_t id = 0; id < adjusted.logits.size(); ++id) {
    const float logit = adjusted.logits[id];
    if (logit >= smallest) scored_.push_back({static_cast<TokenId>(id), logit});
  }
}

Result<std::span<const Candidate>> Sampler::Distribution(std::span<const float> logits,
                                                         std::span<const TokenId> history) {
#pragma clang fp contract(off)
  ASSIGN_OR_RETURN(const Adjusted adjusted, Adjust(logits, history));
  candidates_.clear();
  if (options_.temperature <= 0.0f) {
    candidates_.push_back({adjusted.best.id, adjusted.best.logit, 1.0});
    return std::span<const Candidate>(candidates_);
  }
  Filter(adjusted);
  const double best = adjusted.best.logit;
  const double temperature = options_.temperature;
  candidates_.reserve(scored_.size());
  for (const ScoredToken& token : scored_) {
    candidates_.push_back({token.id, token.logit, ExactExp((token.logit - best) / temperature)});
  }
  return std::span<const Candidate>(candidates_);
}

Result<TokenId> Sampler::Sample(std::span<const float> logits, std::span<const TokenId> history,
                                uint64_t token_index) {
#pragma clang fp contract(off)
  ASSIGN_OR_RETURN(const std::span<const Candidate> candidates, Distribution(logits, history));
  double sum = 0.0;
  for (const Candidate& candidate : candidates) sum += candidate.weight;
  // The uniform number is at most 1 - 2^-24, so the target stays below the sum; and a weight of 0
  // never passes it.
  const double target = PhiloxUniform(options_.seed, token_index) * sum;
  double reached = 0.0;
  for (const Candidate& candidate : candidates) {
    reached += candidate.weight;
    if (reached > target) return candidate.id;
  }
  return Error{ErrorCode::kInternal, "The random number lies past all candidates."};
}

}  // namespace nonstop
