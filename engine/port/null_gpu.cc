#include "port/null_gpu.h"

#include "base/bytes.h"

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

Result<GpuPipelineId> NullGpu::CreatePipeline(std::string_view, std::string_view) {
  return counts_.pipelines++;
}

Status NullGpu::CheckBinding(const GpuBufferBinding& binding) const {
  const GpuLimits& limits = adapter_.limits;
  if (binding.buffer >= buffer_sizes_bytes_.size() || binding.size_bytes == 0 ||
      binding.offset_bytes > buffer_sizes_bytes_[binding.buffer] ||
      binding.size_bytes > buffer_sizes_bytes_[binding.buffer] - binding.offset_bytes) {
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

Result<GpuBindGroupId> NullGpu::CreateBindGroup(GpuPipelineId,
                                                std::span<const GpuBufferBinding> bindings) {
  uint32_t storage_count = 0;
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
  return counts_.bind_groups++;
}

Status NullGpu::Upload(GpuBufferId buffer, uint64_t offset_bytes,
                       std::span<const std::byte> bytes) {
  if (buffer >= buffer_sizes_bytes_.size() || offset_bytes > buffer_sizes_bytes_[buffer] ||
      bytes.size() > buffer_sizes_bytes_[buffer] - offset_bytes) {
    return MakeError(ErrorCode::kInternal, "Upload leaves buffer (%u).", buffer);
  }
  ++counts_.uploads;
  counts_.upload_bytes += bytes.size();
  return {};
}

Status NullGpu::Submit(std::span<const GpuDispatch> dispatches) {
  for (const GpuDispatch& dispatch : dispatches) {
    for (uint32_t count : dispatch.workgroups) {
      if (count == 0 || count > adapter_.limits.max_workgroups_per_dimension) {
        return MakeError(ErrorCode::kInternal, "Dispatch has (%u) workgroups.", count);
      }
    }
  }
  ++counts_.submits;
  counts_.dispatches += static_cast<uint32_t>(dispatches.size());
  return {};
}

}  // namespace nonstop
