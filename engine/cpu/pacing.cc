#include "cpu/pacing.h"

#include <algorithm>

namespace nonstop::cpu {
namespace {

// Two steps and a pump's budget stay below the 50 ms in which a stop request is honoured.
constexpr double kLongestStepUs = 15'000;
constexpr double kSlowProductsPerUs = 4'000;

constexpr double kTryIntervalUs = 400'000;
constexpr uint32_t kLeastSampleCount = 8;
constexpr double kWinFactor = 0.92;  // less is not worth a change
constexpr uint32_t kWinsNeeded = 2;

// In multiples of the four rows that a kernel takes at once: fewer hardly take less time.
constexpr uint32_t kKernelRows = 4;

uint32_t RoundRows(double rows, uint32_t most_rows) {
  if (rows >= most_rows) return most_rows;
  const uint32_t rounded = static_cast<uint32_t>(rows) / kKernelRows * kKernelRows;
  return std::min(std::max(rounded, kKernelRows), most_rows);
}

}  // namespace

ChunkPacer::ChunkPacer(uint32_t most_rows, uint64_t largest_step_products)
    : most_rows_(most_rows),
      row_count_(RoundRows(kLongestStepUs * kSlowProductsPerUs /
                               static_cast<double>(std::max<uint64_t>(largest_step_products, 1)),
                           most_rows)) {}

void ChunkPacer::Observe(uint32_t row_count, double longest_step_us) {
  if (longest_step_us > kLongestStepUs) {
    row_count_ =
        std::min(row_count_, RoundRows(row_count * kLongestStepUs / longest_step_us, most_rows_));
  } else if (row_count == row_count_ && longest_step_us < kLongestStepUs / 2.5) {
    row_count_ = RoundRows(2.0 * row_count_, most_rows_);
  }
}

// 1, 2, 4, ... and the most, in turn: what is best need not lie next to what is now.
uint32_t ThreadPacer::NextOther() {
  do {
    turn_ = turn_ == most_ ? 1 : std::min(turn_ * 2, most_);
  } while (turn_ == count_);
  return turn_;
}

void ThreadPacer::BeginRun(double now_us) {
  is_trying_ = most_ > 1 && now_us >= next_try_us_;
  if (!is_trying_) return;
  if (win_count_ == 0) other_ = NextOther();
  sample_count_ = 0;
  totals_us_[0] = totals_us_[1] = 0;
  next_try_us_ = now_us + kTryIntervalUs;
}

void ThreadPacer::Observe(double step_us) { totals_us_[sample_count_++ % 2] += step_us; }

void ThreadPacer::EndRun() {
  if (!is_trying_) return;
  is_trying_ = false;
  const uint32_t pair_count = sample_count_ / 2;
  const bool has_won =
      pair_count * 2 >= kLeastSampleCount &&
      totals_us_[1] / pair_count < kWinFactor * totals_us_[0] / (sample_count_ - pair_count);
  win_count_ = has_won ? win_count_ + 1 : 0;
  if (win_count_ == kWinsNeeded) {
    count_ = other_;
    win_count_ = 0;
  } else if (has_won) {
    next_try_us_ = 0;  // the next run confirms
  }
}

}  // namespace nonstop::cpu
