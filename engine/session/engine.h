// The engine: one model, from its bytes to replies. Ties the loader, the model, the plans, a
// backend and the scheduler together; everything it does happens inside a call and none of them
// blocks.
#pragma once

#include <memory>
#include <string>

#include "cpu/matrix.h"
#include "cpu/ops.h"
#include "plan/plan.h"
#include "session/backend.h"
#include "session/loader.h"
#include "session/scheduler.h"

namespace nonstop {

struct EngineOptions {
  bool uses_reference = false;  // the CPU's plain loops: the oracle
  uint32_t thread_count = 1;
  uint32_t context_length = 0;  // 0: as trained
  uint32_t max_sequence_count = 1;
  uint32_t prefill_chunk = 0;  // 0: as the backend wants it
  cpu::KvType kv_type = cpu::KvType::kF16;
  cpu::ActivationType activation = cpu::ActivationType::kQ8;
  // "auto": "fused", and for replies the resident plan where the backend has it and it serves.
  // "resident": that plan wherever it runs; "resident-1": with one workgroup.
  std::string plan_name = "auto";
};

enum class PlanDump : uint8_t { kGraph, kSteps, kMemory };

class Engine {
 public:
  static constexpr uint32_t kMaxPrefillChunk = 4096;
  static constexpr uint32_t kMaxSequenceCount = 8;
  static constexpr uint32_t kMaxThreadCount = 64;

  // Clock and sink must outlive the engine. The factory is made from the same options.
  static Result<std::unique_ptr<Engine>> Create(const EngineOptions& options, const Clock* clock,
                                                RequestSink* sink,
                                                std::unique_ptr<BackendFactory> factory);

  Loader& loader() { return loader_; }
  // To be called when the loader has reported a complete header and knows all files: checks the
  // model (architecture, shapes, tokenizer) before its weights are there.
  Status AfterHeader();
  // All files are complete: binds the weights and is ready for requests, which may wait yet for a
  // GPU to compile.
  Status FinishLoading();
  bool is_ready() const { return scheduler_ != nullptr; }

  const Tokenizer* tokenizer() const { return tokenizer_.get(); }
  // JSON. ModelJson: after the header. InfoJson: any time.
  Result<std::string> ModelJson() const;
  std::string InfoJson() const;
  Result<std::string> PlanText(std::string_view plan_name, uint32_t row_count, PlanDump what) const;

  Result<uint32_t> Start(RequestOptions options);
  void Cancel(uint32_t request_id);
  PumpStatus Pump(double budget_us);
  BackendStats stats() const;
  uint32_t active_count() const { return scheduler_ ? scheduler_->active_count() : 0; }

 private:
  Engine(const EngineOptions& options, const Clock* clock, RequestSink* sink,
         std::unique_ptr<BackendFactory> factory)
      : options_(options),
        clock_(*clock),
        sink_(*sink),
        factory_(std::move(factory)),
        loader_(&factory_->weights()) {}

  Result<Plan> BuildPlan(std::string_view plan_name, Phase phase, const PlanLimits& limits) const;
  Status ApplyRopeFactorTensor();
  uint32_t context_length() const;

  EngineOptions options_;
  const Clock& clock_;
  RequestSink& sink_;
  std::unique_ptr<BackendFactory> factory_;
  Loader loader_;
  ModelSpec spec_;
  bool has_spec_ = false;
  std::unique_ptr<Tokenizer> tokenizer_;
  Plan prefill_plan_;
  Plan decode_plan_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Scheduler> scheduler_;
};

}  // namespace nonstop
