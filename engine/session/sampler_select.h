// One pass over the logits of a vocabulary: the best one, the `count` best ones, and the sum of the
// exponentials. Blocks of 64 logits are reduced first (SIMD code); a block is looked into only when
// its maximum beats what is held, so a pass costs little more than reading.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "text/tokenizer.h"

namespace nonstop::sampling {

struct ScoredToken {
  TokenId id;
  float logit;
};

// The order of every list here: larger logit first, equal logits (-0 equals 0) by the smaller id.
inline bool IsBetter(const ScoredToken& a, const ScoredToken& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

struct LogitScan {
  ScoredToken best{kNoToken, 0.0f};  // kNoToken when all are -infinity
  TokenId first_bad = kNoToken;      // the first NaN or +infinity; then `best` means nothing
};

LogitScan ScanLogits(std::span<const float> logits);

// The `count` best (all, when there are fewer), best first. No logit may be NaN.
// Keeps a heap: O(V + insertions * log count), O(V log count) at worst. Reuses *best's memory.
void SelectBest(std::span<const float> logits, size_t count, std::vector<ScoredToken>* best);

// Those with logit >= smallest, best first. No logit may be NaN.
void SelectAtLeast(std::span<const float> logits, float smallest, std::vector<ScoredToken>* best);

// The sum of exp(logit - max) as a LaneSum (exact_math.h) over ids 0, 1, 2, ...
double SumOfExp(std::span<const float> logits, float max_logit);

// The same sum, spread over how far the logits lie below the maximum: bucket b holds distances from
// b / kBucketsPerNat on, the last one all the rest. Tells where the bulk of the probability ends.
struct MassHistogram {
  static constexpr int kBuckets = 256;
  static constexpr int kBucketsPerNat = 8;
  double sum = 0.0;  // equal to SumOfExp
  double mass[kBuckets] = {};
};

MassHistogram MeasureMass(std::span<const float> logits, float max_logit);

}  // namespace nonstop::sampling
