#include "port/null_gpu.h"

#include <cstring>

#include "base/bytes.h"
#include "base/check.h"

namespace nonstop {

NullGpu::NullGpu(const GpuLimits& limits) {
  adapter_.vendor = "null";
  adapter_.description = "computes nothing";
  adapter_.limits = limits;
  adapter_.is_fallback = true;
}

Result<GpuBufferId> NullGpu::CreateBuffer(GpuBufferUsage, uint64_t size_bytes) {
  const uint64_t size = RoundUp<uint64_t>(size_bytes, 4096);
  if (size_bytes == 0 || size > adapter_.limits.max_buffer_size_bytes) {
    return MakeError(ErrorCode::kOutOfMemory, "Buffer of (%llu) bytes is past the limit (%llu).",
                     static_cast<unsigned long long>(size_bytes),
                     static_cast<unsigned long long>(adapter_.limits.max_buffer_size_bytes));
  }
  counts_.buffer_bytes += size;
  buffer_sizes_bytes_.push_back(size);
  return static_cast<GpuBufferId>(buffer_sizes_bytes_.size() - 1);
}

void NullGpu::DestroyBuffer(GpuBufferId buffer) {
  CHECK(buffer < buffer_sizes_bytes_.size());
  counts_.buffer_bytes -= buffer_sizes_bytes_[buffer];
  buffer_sizes_bytes_[buffer] = 0;
}

Result<GpuPipelineId> NullGpu::CreatePipeline(const GpuPipelineSource& source) {
  pipeline_access_.emplace_back(source.bindings.begin(), source.bindings.end());
  return counts_.pipelines++;
}

bool NullGpu::IsInside(GpuBufferId buffer, uint64_t offset_bytes, uint64_t size_bytes) const {
  return buffer < buffer_sizes_bytes_.size() && offset_bytes <= buffer_sizes_bytes_[buffer] &&
         size_bytes <= buffer_sizes_bytes_[buffer] - offset_bytes;
}

Status NullGpu::CheckBinding(const GpuBufferBinding& binding) const {
  const GpuLimits& limits = adapter_.limits;
  if (binding.size_bytes == 0 ||
      !IsInside(binding.buffer, binding.offset_bytes, binding.size_bytes)) {
    return MakeError(ErrorCode::kInternal, "Binding leaves buffer (%u).", binding.buffer);
  }
  if (binding.size_bytes > limits.max_storage_binding_size_bytes) {
    return MakeError(ErrorCode::kInternal, "Binding of (%llu) bytes is past the limit (%llu).",
                     static_cast<unsigned long long>(binding.size_bytes),
                     static_cast<unsigned long long>(limits.max_storage_binding_size_bytes));
  }
  if (binding.offset_bytes % limits.min_storage_offset_alignment != 0) {
    return MakeError(ErrorCode::kInternal, "Binding offset (%llu) is not aligned to (%u).",
                     static_cast<unsigned long long>(binding.offset_bytes),
                     limits.min_storage_offset_alignment);
  }
  return {};
}

Result<GpuBindGroupId> NullGpu::CreateBindGroup(GpuPipelineId pipeline,
                                                std::span<const GpuBufferBinding> bindings) {
  CHECK(pipeline < pipeline_access_.size());
  const std::vector<GpuAccess>& access = pipeline_access_[pipeline];
  if (bindings.size() != access.size()) {
    return MakeError(ErrorCode::kInternal, "Bind group has (%zu) bindings, its pipeline (%zu).",
                     bindings.size(), access.size());
  }
  uint32_t storage_count = 0;
  for (size_t i = 0; i < bindings.size(); ++i) {
    if (bindings[i].access != access[i]) {
      return MakeError(ErrorCode::kInternal, "Binding (%zu) has another access than its pipeline.",
                       i);
    }
  }
  for (const GpuBufferBinding& binding : bindings) {
    TRY(CheckBinding(binding));
    if (binding.access != GpuAccess::kUniform) ++storage_count;
    for (const GpuBufferBinding& other : bindings) {
      if (binding.buffer == other.buffer && binding.access != other.access) {
        return MakeError(ErrorCode::kInternal, "Buffer (%u) is bound for reading and for writing.",
                         binding.buffer);
      }
    }
  }
  if (storage_count > adapter_.limits.max_storage_buffers_per_stage) {
    return MakeError(ErrorCode::kInternal,
                     "Bind group has (%u) storage buffers, the limit is (%u).", storage_count,
                     adapter_.limits.max_storage_buffers_per_stage);
  }
  bind_group_pipelines_.push_back(pipeline);
  return counts_.bind_groups++;
}

void NullGpu::DestroyBindGroup(GpuBindGroupId bind_group) {
  CHECK(bind_group < bind_group_pipelines_.size());
}

Status NullGpu::Upload(GpuBufferId buffer, uint64_t offset_bytes,
                       std::span<const std::byte> bytes) {
  if (!IsInside(buffer, offset_bytes, bytes.size())) {
    return MakeError(ErrorCode::kInternal, "Upload leaves buffer (%u).", buffer);
  }
  if (offset_bytes % 4 != 0 || bytes.size() % 4 != 0) {
    return MakeError(ErrorCode::kInternal, "Upload to buffer (%u) is not in whole words.", buffer);
  }
  ++counts_.uploads;
  counts_.upload_bytes += bytes.size();
  return {};
}

Result<GpuTicket> NullGpu::Submit(std::span<const GpuDispatch> dispatches,
                                  std::span<const GpuReadback> readbacks) {
  for (const GpuDispatch& dispatch : dispatches) {
    if (dispatch.bind_group >= bind_group_pipelines_.size() ||
        bind_group_pipelines_[dispatch.bind_group] != dispatch.pipeline) {
      return MakeError(ErrorCode::kInternal, "Dispatch has bind group (%u) of another pipeline.",
                       dispatch.bind_group);
    }
    for (uint32_t count : dispatch.workgroups) {
      if (count == 0 || count > adapter_.limits.max_workgroups_per_dimension) {
        return MakeError(ErrorCode::kInternal, "Dispatch has (%u) workgroups.", count);
      }
    }
  }
  counts_.dispatches += static_cast<uint32_t>(dispatches.size());
  for (const GpuReadback& readback : readbacks) {
    if (readback.size_bytes % 4 != 0 || readback.offset_bytes % 4 != 0 ||
        !IsInside(readback.buffer, readback.offset_bytes, readback.size_bytes)) {
      return MakeError(ErrorCode::kInternal, "Read-back leaves buffer (%u).", readback.buffer);
    }
    std::memset(readback.destination, 0, readback.size_bytes);
    if (fill_) fill_(readback);
    counts_.readback_bytes += readback.size_bytes;
  }
  ++counts_.submits;
  return counts_.submits;
}

}  // namespace nonstop
