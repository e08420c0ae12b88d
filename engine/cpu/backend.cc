#include "cpu/backend.h"

namespace nonstop::cpu {

Result<std::unique_ptr<CpuBackend>> CpuBackend::Create(const Plan& prefill, const Plan& decode,
                                                       const WeightStore& weights,
                                                       const ModelSpec& spec, Pool* pool,
                                                       const CpuBackendOptions& options) {
  const KvShape shape = {.type = options.kv_type,
                         .layer_count = spec.layer_count,
                         .kv_head_count = spec.kv_head_count,
                         .head_dim = spec.head_dim};
  auto backend =
      std::unique_ptr<CpuBackend>(new CpuBackend(prefill, decode, weights, shape, pool, options));
  const ExecutorOptions executor_options = {.uses_reference = options.uses_reference,
                                            .activation = options.activation,
                                            .part_count = options.thread_count,
                                            .context_length = options.context_length};
  ASSIGN_OR_RETURN(backend->prefill_,
                   Executor::Create(prefill, weights, spec.ropes, &backend->kv_, executor_options));
  ASSIGN_OR_RETURN(backend->decode_,
                   Executor::Create(decode, weights, spec.ropes, &backend->kv_, executor_options));
  return backend;
}

Status CpuBackend::PreparePages(std::span<const uint32_t> pages) {
  for (uint32_t page : pages) TRY(kv_.EnsurePage(page));
  return {};
}

void CpuBackend::Begin(Phase phase, const Batch& batch) {
  running_ = phase == Phase::kPrefill ? prefill_.get() : decode_.get();
  next_step_ = 0;
  running_->Begin(batch);
}

bool CpuBackend::Work(const Clock& clock, double deadline_us) {
  struct Job {
    Executor* executor;
    size_t step;
  };
  while (next_step_ < running_->step_count()) {
    Job job = {running_, next_step_};
    pool_.Run(
        [](void* context, uint32_t part) {
          const auto* self = static_cast<const Job*>(context);
          self->executor->RunStep(self->step, part);
        },
        &job, options_.thread_count);
    ++next_step_;
    if (clock.NowUs() >= deadline_us) break;
  }
  return next_step_ == running_->step_count();
}

std::span<const float> CpuBackend::Logits(uint32_t output_row) const {
  return running_->Logits(output_row);
}

BackendStats CpuBackend::stats() const {
  return {.weight_bytes = weights_.size_bytes(),
          .kv_bytes = kv_.size_bytes(),
          .activation_bytes = prefill_->size_bytes() + decode_->size_bytes(),
          .gpu_bytes = 0,
          .dispatches_per_token = 0,
          .barriers_per_token =
              options_.thread_count > 1 ? static_cast<uint32_t>(decode_->step_count()) : 0,
          .thread_count = options_.thread_count};
}

}  // namespace nonstop::cpu
