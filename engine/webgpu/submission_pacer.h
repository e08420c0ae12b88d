// How long a run of so many rows keeps the GPU busy, from when it was submitted and when it was
// seen to end; and so in how many submissions it should come, that the page gets its turns between
// them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "port/gpu.h"

namespace nonstop {

class SubmissionPacer {
 public:
  // No submission should take longer while the page is visible.
  static constexpr double kMostUs = 8000.0;
  static constexpr uint32_t kMostPieces = 32;

  static uint32_t PieceCount(double run_us) {
    if (!(run_us > kMostUs)) return 1;
    return static_cast<uint32_t>(std::min<double>(std::ceil(run_us / kMostUs), kMostPieces));
  }

  // 0: not known yet.
  double RunUs(uint32_t row_count) const { return row_us_ * row_count; }

  void Submitted(GpuTicket ticket, uint32_t row_count, double now_us) {
    under_way_.push_back({ticket, row_count, now_us});
  }
  // To be told whenever something may have ended. What is seen together is told apart no more.
  void Ended(GpuTicket last_done, double now_us) {
    uint32_t row_count = 0;
    double begin_us = last_end_us_;
    while (!under_way_.empty() && under_way_.front().ticket <= last_done) {
      if (row_count == 0) begin_us = std::max(begin_us, under_way_.front().submitted_us);
      row_count += under_way_.front().row_count;
      under_way_.erase(under_way_.begin());
    }
    if (row_count == 0) return;
    row_us_ = (now_us - begin_us) / row_count;
    last_end_us_ = now_us;
  }

 private:
  struct Run {
    GpuTicket ticket;
    uint32_t row_count;
    double submitted_us;
  };
  std::vector<Run> under_way_;
  double last_end_us_ = 0.0;
  double row_us_ = 0.0;  // of the last runs; 0: not known yet
};

}  // namespace nonstop
