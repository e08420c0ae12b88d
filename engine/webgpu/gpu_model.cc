#include "webgpu/gpu_model.h"

#include <algorithm>

#include "base/check.h"
#include "webgpu/attention.h"
#include "webgpu/sampling.h"

namespace nonstop {

Result<GpuPipelineId> PipelineSet::Get(const KernelSource& source, bool is_optional) {
  for (const Entry& entry : pipelines_) {
    if (entry.wgsl == source.wgsl) return entry.id;
  }
  ASSIGN_OR_RETURN(const GpuPipelineId id, gpu_.CreatePipeline(source.pipeline(is_optional)));
  pipelines_.push_back({source.name, source.wgsl, id, is_optional});
  return id;
}

void PipelineSet::DropText() {
  for (Entry& entry : pipelines_) entry.wgsl = {};
}

Result<bool> PipelineSet::AreReady() const {
  for (const Entry& entry : pipelines_) {
    const GpuPipelineState state = gpu_.pipeline_state(entry.id);
    if (state == GpuPipelineState::kFailed && !entry.is_optional) {
      return MakeError(ErrorCode::kBackendFailed, "GPU kernel \"%s\" did not compile.",
                       entry.name.c_str());
    }
    if (state == GpuPipelineState::kPending) return false;
  }
  return true;
}

namespace {

// Sizes that several steps share: the widest.
struct Widths {
  uint32_t normed = 0;  // what a product reads after a norm
  uint32_t qkv = 0;
  uint32_t parts = 0;  // of all rows
};

Widths FindWidths(const Plan& plan) {
  Widths widths;
  for (const Step& step : plan.steps) {
    const OpAttributes& params = plan.params[step.params_index];
    const auto bindings = plan.BindingsOf(step);
    if (step.op == OpKind::kNormQkv || step.op == OpKind::kNormGateUp ||
        step.op == OpKind::kNormMatMul) {
      widths.normed = std::max(widths.normed, plan.graph.value(bindings[0].value).width);
    }
    if (step.op == OpKind::kNormQkv) {
      widths.qkv =
          std::max(widths.qkv, (params.head_count + 2 * params.kv_head_count) * params.head_dim);
    }
    if (step.op == OpKind::kAttention) {
      AttentionOp op;
      op.head_count = params.head_count;
      op.cache.kv_head_count = params.kv_head_count;
      op.cache.head_dim = params.head_dim;
      for (uint32_t rows = 1; rows <= std::min(plan.limits.token_rows, kMatvecRowLimit); ++rows) {
        widths.parts = std::max(widths.parts, PartsOf(op, rows).element_count());
      }
    }
  }
  return widths;
}

}  // namespace

Status GpuArenas::Allocate(uint64_t size_bytes, Buffer* buffer) {
  if (size_bytes == 0) return {};
  const uint64_t limit = gpu_.adapter().limits.max_storage_binding_size_bytes;
  if (size_bytes > limit) {
    return MakeError(
        ErrorCode::kOutOfMemory, "Activations of (%llu) bytes are past the GPU's limit (%llu).",
        static_cast<unsigned long long>(size_bytes), static_cast<unsigned long long>(limit));
  }
  ASSIGN_OR_RETURN(buffer->buffer, gpu_.CreateBuffer(GpuBufferUsage::kActivations, size_bytes));
  buffer->size_bytes = size_bytes;
  return {};
}

Result<std::unique_ptr<GpuArenas>> GpuArenas::Create(Gpu* gpu, const Plan& plan) {
  auto arenas = std::unique_ptr<GpuArenas>(new GpuArenas(gpu));
  arenas->arenas_.resize(plan.arena_sizes_bytes.size());
  for (size_t i = 0; i < arenas->arenas_.size(); ++i) {
    TRY(arenas->Allocate(plan.arena_sizes_bytes[i], &arenas->arenas_[i]));
  }
  const Widths widths = FindWidths(plan);
  const uint64_t rows = std::max(plan.limits.token_rows, plan.limits.output_rows);
  TRY(arenas->Allocate(rows * widths.normed * sizeof(float), &arenas->normed_rows_));
  TRY(arenas->Allocate(rows * widths.qkv * sizeof(float), &arenas->qkv_rows_));
  if (rows <= kMatvecRowLimit) {
    TRY(arenas->Allocate(uint64_t{widths.parts} * sizeof(float), &arenas->parts_));
    TRY(arenas->Allocate(rows * SampleBestWords() * sizeof(uint32_t), &arenas->best_));
  }
  return arenas;
}

Status GpuArenas::AllocateRelay(uint64_t size_bytes) {
  return relay_.buffer == kNoBuffer ? Allocate(size_bytes, &relay_) : Status();
}

void GpuArenas::DropRelay() {
  Destroy(relay_);
  relay_ = {};
}

GpuArenas::~GpuArenas() {
  for (const Buffer& buffer : arenas_) Destroy(buffer);
  for (const Buffer* buffer : {&normed_rows_, &qkv_rows_, &parts_, &best_, &relay_})
    Destroy(*buffer);
}

void GpuArenas::Destroy(const Buffer& buffer) {
  if (buffer.buffer != kNoBuffer) gpu_.DestroyBuffer(buffer.buffer);
}

uint64_t GpuArenas::SizeBytesOf(GpuBufferId buffer) const {
  for (const Buffer& arena : arenas_) {
    if (arena.buffer == buffer) return arena.size_bytes;
  }
  for (const Buffer* other : {&normed_rows_, &qkv_rows_, &parts_, &best_, &relay_}) {
    if (other->buffer == buffer) return other->size_bytes;
  }
  CHECK(!"no such arena");
  return 0;
}

uint64_t GpuArenas::size_bytes() const {
  uint64_t sum = normed_rows_.size_bytes + qkv_rows_.size_bytes + parts_.size_bytes +
                 best_.size_bytes + relay_.size_bytes;
  for (const Buffer& arena : arenas_) sum += arena.size_bytes;
  return sum;
}

}  // namespace nonstop
