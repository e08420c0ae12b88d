// The CPU behind the scheduler's Backend: one plan for prefill chunks, one for decode, a pool.
#pragma once

#include <memory>

#include "cpu/executor.h"
#include "cpu/pacing.h"
#include "cpu/pool.h"
#include "session/backend.h"

namespace nonstop::cpu {

struct CpuBackendOptions {
  bool uses_reference = false;
  ActivationType activation = ActivationType::kQ8;
  KvType kv_type = KvType::kF16;
  uint32_t thread_count = 1;
  uint32_t context_length = 0;
  const KernelSet* kernels = nullptr;  // in place of the chosen ones: what other engines compute
};

class CpuBackend final : public Backend {
 public:
  // The plans, weights and ropes must outlive the backend. `pool` may be shared with nobody else.
  static Result<std::unique_ptr<CpuBackend>> Create(const Plan& prefill, const Plan& decode,
                                                    const WeightStore& weights,
                                                    const ModelSpec& spec, Pool* pool,
                                                    const CpuBackendOptions& options);

  uint32_t prefill_row_count() const override { return chunk_.row_count(); }
  uint32_t decode_row_count() const override { return decode_plan_.limits.token_rows; }
  Status PreparePages(std::span<const uint32_t> pages) override;
  void Begin(Phase phase, const Batch& batch) override;
  Result<WorkStatus> Work(const Clock& clock, double deadline_us) override;
  std::span<const float> Logits(uint32_t output_row) const override;
  BackendStats stats() const override;

 private:
  CpuBackend(const Plan& prefill, const Plan& decode, const WeightStore& weights,
             const KvShape& shape, Pool* pool, const CpuBackendOptions& options);

  void RunStep(uint32_t thread_count);
  void EndRun();

  const Plan& decode_plan_;
  const WeightStore& weights_;
  KvStore kv_;
  Pool& pool_;
  CpuBackendOptions options_;
  std::unique_ptr<Executor> prefill_;
  std::unique_ptr<Executor> decode_;
  Executor* running_ = nullptr;
  size_t next_step_ = 0;
  bool has_begun_ = false;
  uint32_t row_count_ = 0;
  double longest_step_us_ = 0;
  uint32_t barrier_count_ = 0;         // of this run: steps that several threads shared
  uint32_t decode_barrier_count_ = 0;  // of the last decode run
  ChunkPacer chunk_;
  ThreadPacer threads_;
};

class CpuBackendFactory final : public BackendFactory {
 public:
  // `pool` must outlive the backend.
  CpuBackendFactory(Pool* pool, const CpuBackendOptions& options)
      : pool_(*pool), options_(options), weights_({.keeps_raw = options.uses_reference}) {}

  std::string_view name() const override {
    return options_.uses_reference ? "cpu-reference" : "cpu";
  }
  uint32_t default_prefill_chunk() const override { return 64; }
  WeightSink& weights() override { return weights_; }
  Result<std::unique_ptr<Backend>> Create(const Plan& prefill, const Plan& decode,
                                          const ModelSpec& spec,
                                          const BackendOptions& options) override;

 private:
  Pool& pool_;
  CpuBackendOptions options_;
  WeightStore weights_;
};

}  // namespace nonstop::cpu
