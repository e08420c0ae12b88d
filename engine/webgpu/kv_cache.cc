#include "webgpu/kv_cache.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/check.h"

namespace nonstop {
namespace {

constexpr uint32_t kFirstPageCount = 2;

}  // namespace

GpuKvCache::GpuKvCache(Gpu* gpu, const Shape& shape) : gpu_(*gpu), shape_(shape) {
  const GpuLimits& limits = gpu->adapter().limits;
  const uint64_t most_bytes =
      std::min(limits.max_storage_binding_size_bytes, limits.max_buffer_size_bytes);
  const uint64_t layer_bytes = uint64_t{PlaceOf(0).layer_words()} * sizeof(uint32_t);
  page_limit_ =
      static_cast<uint32_t>(std::min<uint64_t>(shape.max_page_count, most_bytes / layer_bytes));
  // As many layers as a buffer holds with all pages.
  group_layers_ = static_cast<uint32_t>(std::clamp<uint64_t>(
      most_bytes / (layer_bytes * std::max(page_limit_, 1u)), 1, shape.layer_count));
  group_count_ = DivideRoundUp(shape.layer_count, group_layers_);
}

Result<std::unique_ptr<GpuKvCache>> GpuKvCache::Create(Gpu* gpu, const Shape& shape) {
  auto cache = std::unique_ptr<GpuKvCache>(new GpuKvCache(gpu, shape));
  const KernelSource copy =
      ComposeKernel({.name = "copy",
                     .bindings = {KernelBinding::kRaw, KernelBinding::kPacked},
                     .files = {"copy"}});
  ASSIGN_OR_RETURN(cache->copy_pipeline_, gpu->CreatePipeline(copy.pipeline()));
  return cache;
}

GpuKvCache::~GpuKvCache() { Destroy(&buffers_); }

void GpuKvCache::Destroy(std::vector<GpuBufferId>* buffers) {
  for (GpuBufferId buffer : *buffers) gpu_.DestroyBuffer(buffer);
  buffers->clear();
}

CachePlace GpuKvCache::PlaceOf(uint32_t layer) const {
  CachePlace place = {
      .head_dim = shape_.head_dim, .kv_head_count = shape_.kv_head_count, .is_f32 = shape_.is_f32};
  place.offset = layer % group_layers_ * place.layer_words();
  place.page_words = group_layers_ * place.layer_words();
  return place;
}

uint64_t GpuKvCache::GroupSizeBytes(uint32_t page_count) const {
  return uint64_t{page_count} * PlaceOf(0).page_words * sizeof(uint32_t);
}

uint64_t GpuKvCache::size_bytes() const { return buffers_.size() * GroupSizeBytes(page_count_); }

Result<bool> GpuKvCache::Reserve(uint32_t page_count) {
  if (page_count <= page_count_) return false;
  if (page_count > page_limit_) {
    return MakeError(ErrorCode::kOutOfMemory,
                     "The KV cache would have (%u) pages, a GPU buffer holds (%u) of a layer.",
                     page_count, page_limit_);
  }
  const uint32_t wanted =
      std::min(page_limit_, std::max({page_count, 2 * page_count_, kFirstPageCount}));
  std::vector<GpuBufferId> grown;
  for (uint32_t group = 0; group < group_count_; ++group) {
    Result<GpuBufferId> buffer = gpu_.CreateBuffer(GpuBufferUsage::kCache, GroupSizeBytes(wanted));
    Status status;
    if (buffer.ok()) {
      grown.push_back(*buffer);
      if (!buffers_.empty()) {
        status = Copy(buffers_[group], *buffer, GroupSizeBytes(page_count_));
      }
    } else {
      status = Error(buffer.error());
    }
    if (!status.ok()) {
      Destroy(&grown);
      return std::move(status).error();
    }
  }
  Destroy(&buffers_);
  buffers_ = std::move(grown);
  page_count_ = wanted;
  return true;
}

Status GpuKvCache::Copy(GpuBufferId from, GpuBufferId to, uint64_t size_bytes) {
  const GpuBufferBinding bindings[] = {{from, GpuAccess::kRead, 0, size_bytes},
                                       {to, GpuAccess::kReadWrite, 0, size_bytes}};
  ASSIGN_OR_RETURN(const GpuBindGroupId bind_group, gpu_.CreateBindGroup(copy_pipeline_, bindings));
  const Workload workload = {.units_per_workgroup = 256};
  const auto workgroups = workload.Workgroups(static_cast<uint32_t>(size_bytes / sizeof(uint32_t)));
  const GpuDispatch dispatch = {.pipeline = copy_pipeline_,
                                .bind_group = bind_group,
                                .params_offset_bytes = 0,
                                .workgroups = {workgroups[0], workgroups[1], workgroups[2]}};
  Result<GpuTicket> ticket = gpu_.Submit({&dispatch, 1}, {});
  gpu_.DestroyBindGroup(bind_group);
  TRY(ticket);
  return {};
}

GpuBufferBinding GpuKvCache::Bind(uint32_t group, GpuAccess access) const {
  CHECK(group < buffers_.size());
  return {buffers_[group], access, 0, GroupSizeBytes(page_count_)};
}

}  // namespace nonstop
