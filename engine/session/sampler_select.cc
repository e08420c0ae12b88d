// The passes of sampler_select.h.
#include "session/sampler_select.h"

#include <algorithm>
#include <limits>

#include "base/exact_math.h"
#include "base/sort.h"

namespace nonstop::sampling {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr size_t kBlock = 64;
constexpr size_t kLanes = 16;

struct BlockScan {
  float max = -kInfinity;
  bool has_bad = false;
};

BlockScan ScanBlock(const float* logits) {
  float max[kLanes];
  uint32_t bad[kLanes] = {};
  std::fill_n(max, kLanes, -kInfinity);
  for (size_t start = 0; start < kBlock; start += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const float logit = logits[start + lane];
      max[lane] = logit > max[lane] ? logit : max[lane];
      bad[lane] |= logit < kInfinity ? 0u : 1u;  // false for NaN too
    }
  }
  BlockScan scan;
  for (size_t lane = 0; lane < kLanes; ++lane) {
    scan.max = std::max(scan.max, max[lane]);
    scan.has_bad |= bad[lane] != 0;
  }
  return scan;
}

BlockScan ScanTail(std::span<const float> logits) {
  BlockScan scan;
  for (const float logit : logits) {
    scan.max = logit > scan.max ? logit : scan.max;
    scan.has_bad |= !(logit < kInfinity);
  }
  return scan;
}

// Calls visit(start, block, scan) for each block, in order, until it returns false.
template <class Visit>
void ForEachBlock(std::span<const float> logits, Visit visit) {
  for (size_t start = 0; start < logits.size(); start += kBlock) {
    const auto block = logits.subspan(start, std::min(kBlock, logits.size() - start));
    const BlockScan scan = block.size() == kBlock ? ScanBlock(block.data()) : ScanTail(block);
    if (!visit(start, block, scan)) return;
  }
}

// Calls visit(first id, terms) with exp(logit - max) of up to 8 tokens; missing terms are 0.
template <class Visit>
void ForEachEightTerms(std::span<const float> logits, float max_logit, Visit visit) {
#pragma clang fp contract(off)
  constexpr size_t kSumLanes = LaneSum::kLanes;
  const double max = max_logit;
  const size_t whole = logits.size() / kSumLanes * kSumLanes;
  for (size_t start = 0; start < whole; start += kSumLanes) {
    double terms[kSumLanes];
    for (size_t lane = 0; lane < kSumLanes; ++lane) {
      terms[lane] = ExactExp(static_cast<double>(logits[start + lane]) - max);
    }
    visit(start, terms);
  }
  if (whole == logits.size()) return;
  double terms[kSumLanes] = {};
  for (size_t id = whole; id < logits.size(); ++id) {
    terms[id - whole] = ExactExp(static_cast<double>(logits[id]) - max);
  }
  visit(whole, terms);
}

}  // namespace

LogitScan ScanLogits(std::span<const float> logits) {
  LogitScan result;
  result.best.logit = -kInfinity;
  ForEachBlock(logits, [&](size_t start, std::span<const float> block, BlockScan scan) {
    if (scan.has_bad) {
      const auto bad = std::find_if(block.begin(), block.end(),
                                    [](float logit) { return !(logit < kInfinity); });
      result.first_bad = static_cast<TokenId>(start + static_cast<size_t>(bad - block.begin()));
      return false;
    }
    if (scan.max > result.best.logit) {
      const auto at = std::find(block.begin(), block.end(), scan.max);
      const size_t id = start + static_cast<size_t>(at - block.begin());
      result.best = {static_cast<TokenId>(id), scan.max};
    }
    return true;
  });
  return result;
}

void SelectBest(std::span<const float> logits, size_t count, std::vector<ScoredToken>* best) {
  best->clear();
  count = std::min(count, logits.size());
  if (count == 0) return;
  // With IsBetter as "less", the heap's front is the worst one held. Ids come in rising order, so
  // a later token needs a strictly larger logit to get in.
  for (size_t id = 0; id < count; ++id) best->push_back({static_cast<TokenId>(id), logits[id]});
  if (count < logits.size()) {
    std::make_heap(best->begin(), best->end(), IsBetter);
    ForEachBlock(logits.subspan(count),
                 [&](size_t start, std::span<const float> block, BlockScan scan) {
                   if (!(scan.max > best->front().logit)) return true;
                   for (size_t i = 0; i < block.size(); ++i) {
                     if (!(block[i] > best->front().logit)) continue;
                     std::pop_heap(best->begin(), best->end(), IsBetter);
                     best->back() = {static_cast<TokenId>(count + start + i), block[i]};
                     std::push_heap(best->begin(), best->end(), IsBetter);
                   }
                   return true;
                 });
  }
  HeapSort(std::span<ScoredToken>(*best), IsBetter);
}

void SelectAtLeast(std::span<const float> logits, float smallest, std::vector<ScoredToken>* best) {
  best->clear();
  ForEachBlock(logits, [&](size_t start, std::span<const float> block, BlockScan scan) {
    if (scan.max < smallest) return true;
    for (size_t i = 0; i < block.size(); ++i) {
      if (block[i] >= smallest) best->push_back({static_cast<TokenId>(start + i), block[i]});
    }
    return true;
  });
  HeapSort(std::span<ScoredToken>(*best), IsBetter);
}

double SumOfExp(std::span<const float> logits, float max_logit) {
  LaneSum sum;
  ForEachEightTerms(logits, max_logit, [&](size_t, const double* terms) {
    for (int lane = 0; lane < LaneSum::kLanes; ++lane) sum[lane] += terms[lane];
  });
  return sum.Total();
}

MassHistogram MeasureMass(std::span<const float> logits, float max_logit) {
  constexpr float kLast = MassHistogram::kBuckets - 1;
  MassHistogram result;
  LaneSum sum;
  ForEachEightTerms(logits, max_logit, [&](size_t start, const double* terms) {
    const size_t count = std::min<size_t>(LaneSum::kLanes, logits.size() - start);
    for (int lane = 0; lane < LaneSum::kLanes; ++lane) sum[lane] += terms[lane];
    for (size_t lane = 0; lane < count; ++lane) {
      const float distance = (max_logit - logits[start + lane]) * MassHistogram::kBucketsPerNat;
      result.mass[static_cast<int>(distance < kLast ? distance : kLast)] += terms[lane];
    }
  });
  result.sum = sum.Total();
  return result;
}

}  // namespace nonstop::sampling
