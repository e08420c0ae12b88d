// Runs a plan on the CPU, step by step, so that its caller may stop between any two steps.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "cpu/step.h"
#include "model/spec.h"
#include "model/weights.h"
#include "plan/plan.h"

namespace nonstop::cpu {

struct ExecutorOptions {
  const KernelSet* kernels = &kGenericKernels;
  ActivationType activation = ActivationType::kQ8;
  uint32_t part_count = 1;      // threads
  uint32_t context_length = 0;  // bounds the attention scratch
};

class Executor {
 public:
  // The plan, weights and cache must outlive the executor. `ropes` are the model's frequencies,
  // which the plan's constants name.
  static Result<std::unique_ptr<Executor>> Create(const Plan& plan, const WeightStore& weights,
                                                  std::span<const RopeFrequencies> ropes,
                                                  KvStore* kv, const ExecutorOptions& options);

  // The batch's spans must stay valid until the last step has run. Every page that its rows touch
  // must exist (KvStore::EnsurePage).
  void Begin(const Batch& batch);
  size_t step_count() const { return steps_.size(); }
  // Parts that have work in this step of the run, of `most`.
  uint32_t PartCount(size_t step, uint32_t most) const;
  // Whether the step's work grows with the rows of the batch, not only with those of its outputs.
  bool RunsAllRows(size_t step) const {
    return steps_[step].operands.back().row_space == RowSpace::kTokens;
  }
  OpKind op(size_t step) const { return steps_[step].op; }
  // Parts 0 .. part_count - 1 of one step may run at the same time; steps run in order. A step may
  // be cut into fewer parts than the executor has scratch for.
  void RunStep(size_t step, uint32_t part, uint32_t part_count);

  // After the last step: one row of f32 for each output row.
  std::span<const float> Logits(uint32_t output_row) const;
  uint64_t size_bytes() const { return size_bytes_; }

 private:
  Executor(const Plan& plan, const ExecutorOptions& options, KvStore* kv)
      : plan_(plan), options_(options), kv_(*kv) {}

  Status Bind(const WeightStore& weights);
  Result<Operand> BindOperand(const Binding& binding, const OpAttributes& params,
                              const WeightStore& weights);
  uint32_t RopeTableIndex(const std::string& name, float magnitude);
  Status AllocateScratch();
  Status AllocatePartials();
  uint64_t ScratchRowBytes(ActivationType type) const;
  void FillRopeTables();

  struct RopeSource {
    std::string name;
    float magnitude;
    const std::vector<float>* frequencies;
  };

  const Plan& plan_;
  ExecutorOptions options_;
  KvStore& kv_;
  std::span<const RopeFrequencies> ropes_;
  std::vector<RopeSource> rope_sources_;
  std::vector<AlignedBuffer> arenas_;
  std::vector<BoundStep> steps_;
  std::vector<Scratch> scratch_;  // of each part
  AlignedBuffer partials_;
  AlignedBuffer ranges_done_;
  RunState run_;
  uint64_t size_bytes_ = 0;
};

}  // namespace nonstop::cpu
