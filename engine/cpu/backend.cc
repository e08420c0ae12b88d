#include "cpu/backend.h"

#include <algorithm>

namespace nonstop::cpu {
namespace {

const KernelSet* ChooseKernels(const CpuBackendOptions& options) {
  if (options.kernels != nullptr) return options.kernels;
  if (options.uses_reference) return &kReferenceKernels;
  return PairDotsAreFaster() ? &kGenericPairKernels : &kGenericKernels;
}

// The largest step of a layer, and the same in every layer: what the pacer of threads times.
constexpr OpKind kSampledOp = OpKind::kNormGateUp;

// Multiply-adds for one row in the step with the most, the head aside: it has one row.
uint64_t LargestStepProducts(const Plan& plan) {
  uint64_t most = 0;
  for (const Step& step : plan.steps) {
    uint64_t products = 0;
    for (const Binding& binding : plan.BindingsOf(step)) {
      if (binding.buffer != BufferKind::kWeight || step.op == OpKind::kEmbed) continue;
      const Value& weight = plan.graph.value(binding.value);
      products += uint64_t{weight.row_count} * weight.width;
    }
    const ValueId result = plan.BindingsOf(step).back().value;
    if (plan.graph.value(result).rows == RowSpace::kTokens) most = std::max(most, products);
  }
  return most;
}

}  // namespace

CpuBackend::CpuBackend(const Plan& prefill, const Plan& decode, const WeightStore& weights,
                       const KvShape& shape, Pool* pool, const CpuBackendOptions& options)
    : decode_plan_(decode),
      weights_(weights),
      kv_(shape),
      pool_(*pool),
      options_(options),
      chunk_(prefill.limits.token_rows, LargestStepProducts(prefill)),
      threads_(options.thread_count) {}

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
  const ExecutorOptions executor_options = {.kernels = ChooseKernels(options),
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
  has_begun_ = false;
  row_count_ = static_cast<uint32_t>(batch.rows.size());
  longest_step_us_ = 0;
  barrier_count_ = 0;
  running_->Begin(batch);
}

void CpuBackend::RunStep(uint32_t thread_count) {
  struct Job {
    Executor* executor;
    size_t step;
    uint32_t part_count;
  };
  const uint32_t part_count = running_->PartCount(next_step_, thread_count);
  if (part_count > 1) ++barrier_count_;
  Job job = {running_, next_step_, part_count};
  pool_.Run(
      [](void* context, uint32_t part) {
        const auto* self = static_cast<const Job*>(context);
        self->executor->RunStep(self->step, part, self->part_count);
      },
      &job, part_count);
}

Result<WorkStatus> CpuBackend::Work(const Clock& clock, double deadline_us) {
  double now_us = clock.NowUs();
  if (!has_begun_) threads_.BeginRun(now_us);
  has_begun_ = true;
  while (next_step_ < running_->step_count()) {
    const bool is_sample = threads_.is_trying() && running_->op(next_step_) == kSampledOp;
    RunStep(is_sample ? threads_.ThreadsOfSample() : threads_.thread_count());
    const double step_us = clock.NowUs() - now_us;
    now_us += step_us;
    if (is_sample) threads_.Observe(step_us);
    if (running_->RunsAllRows(next_step_)) longest_step_us_ = std::max(longest_step_us_, step_us);
    ++next_step_;
    if (now_us >= deadline_us) break;
  }
  if (next_step_ < running_->step_count()) return WorkStatus::kMoreWork;
  EndRun();
  return WorkStatus::kDone;
}

void CpuBackend::EndRun() {
  threads_.EndRun();
  if (running_ == prefill_.get()) {
    chunk_.Observe(row_count_, longest_step_us_);
  } else {
    decode_barrier_count_ = barrier_count_;
  }
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
          .barriers_per_token = decode_barrier_count_,
          .thread_count = options_.thread_count};
}

Result<std::unique_ptr<Backend>> CpuBackendFactory::Create(const Plan& prefill, const Plan& decode,
                                                           const ModelSpec& spec,
                                                           const BackendOptions& options) {
  if (options.resident == ResidentUse::kAlways || options.resident == ResidentUse::kAlone) {
    return MakeError(ErrorCode::kBackendFailed, "The resident plan is the GPU's.");
  }
  options_.context_length = options.context_length;
  options_.kv_type = options.kv_is_f32 ? KvType::kF32 : KvType::kF16;
  ASSIGN_OR_RETURN(std::unique_ptr<Backend> backend,
                   CpuBackend::Create(prefill, decode, weights_, spec, &pool_, options_));
  return backend;
}

}  // namespace nonstop::cpu
