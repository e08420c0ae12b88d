// A model ready to run, as the scheduler sees it: it is given batches and worked in slices of time.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "model/model.h"
#include "plan/batch.h"
#include "port/clock.h"

namespace nonstop {

struct BackendStats {
  uint64_t weight_bytes = 0;
  uint64_t kv_bytes = 0;
  uint64_t activation_bytes = 0;
  uint64_t gpu_bytes = 0;
  uint32_t dispatches_per_token = 0;
  uint32_t barriers_per_token = 0;
  uint32_t thread_count = 1;
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual uint32_t prefill_row_count() const = 0;  // most rows of one prefill run
  virtual uint32_t decode_row_count() const = 0;   // most sequences of one decode run
  // Makes the pages' memory exist. Before Begin, for every page that the batch touches.
  virtual Status PreparePages(std::span<const uint32_t> pages) = 0;
  // Starts a run. The batch's spans stay valid until Work has returned true.
  virtual void Begin(Phase phase, const Batch& batch) = 0;
  // Goes on with the run until it is complete (true) or the clock has passed `deadline_us`.
  virtual bool Work(const Clock& clock, double deadline_us) = 0;
  // Of the run just completed: the logits of an output row.
  virtual std::span<const float> Logits(uint32_t output_row) const = 0;
  virtual BackendStats stats() const = 0;
};

}  // namespace nonstop
