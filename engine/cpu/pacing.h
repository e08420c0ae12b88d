// How the CPU backend paces itself by what it measures: rows of a prompt at once, so that a stop
// request gets through between two steps; threads, so that cores which others use do not hold up
// every step. Neither changes a result.
#pragma once

#include <cstdint>

namespace nonstop::cpu {

class ChunkPacer {
 public:
  // `largest_step_products`: multiply-adds for one row in the plan's largest step, from which the
  // first chunk is guessed for a slow machine.
  ChunkPacer(uint32_t most_rows, uint64_t largest_step_products);

  uint32_t row_count() const { return row_count_; }
  void Observe(uint32_t row_count, double longest_step_us);

 private:
  uint32_t most_rows_;
  uint32_t row_count_;
};

// Twice a second one run tries another number of threads: steps that are alike (the largest ones of
// each layer) take turns between the two numbers, and what wins twice is kept.
class ThreadPacer {
 public:
  explicit ThreadPacer(uint32_t most_threads) : most_(most_threads), count_(most_threads) {}

  uint32_t thread_count() const { return count_; }

  void BeginRun(double now_us);
  // For the next of the steps that are alike; its time goes to Observe.
  uint32_t ThreadsOfSample() const {
    return is_trying_ && sample_count_ % 2 == 1 ? other_ : count_;
  }
  bool is_trying() const { return is_trying_; }
  void Observe(double step_us);
  void EndRun();

 private:
  uint32_t NextOther();

  uint32_t most_;
  uint32_t count_;
  uint32_t other_ = 0;
  uint32_t turn_ = 1;
  bool is_trying_ = false;
  uint32_t win_count_ = 0;
  uint32_t sample_count_ = 0;
  double totals_us_[2] = {};  // with count_, with other_
  double next_try_us_ = 0;
};

}  // namespace nonstop::cpu
