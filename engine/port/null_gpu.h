// A GPU that computes nothing: it checks what a real one would refuse (sizes, alignment, a buffer
// bound for reading and writing in one dispatch) and counts. For plan tests, which need no adapter.
#pragma once

#include <vector>

#include "port/gpu.h"

namespace nonstop {

struct GpuCounts {
  uint64_t buffer_bytes = 0;
  uint32_t pipelines = 0;
  uint32_t bind_groups = 0;
  uint32_t uploads = 0;
  uint64_t upload_bytes = 0;
  uint32_t submits = 0;
  uint32_t dispatches = 0;
};

class NullGpu final : public Gpu {
 public:
  explicit NullGpu(const GpuLimits& limits = {});

  const GpuAdapter& adapter() const override { return adapter_; }
  Result<GpuBufferId> CreateBuffer(GpuBufferUsage usage, uint64_t size_bytes) override;
  void DestroyBuffer(GpuBufferId buffer) override;
  Result<GpuPipelineId> CreatePipeline(std::string_view name, std::string_view wgsl) override;
  Result<GpuBindGroupId> CreateBindGroup(GpuPipelineId pipeline,
                                         std::span<const GpuBufferBinding> bindings) override;
  Status Upload(GpuBufferId buffer, uint64_t offset_bytes,
                std::span<const std::byte> bytes) override;
  Status Submit(std::span<const GpuDispatch> dispatches) override;

  const GpuCounts& counts() const { return counts_; }

 private:
  Status CheckBinding(const GpuBufferBinding& binding) const;

  GpuAdapter adapter_;
  GpuCounts counts_;
  std::vector<uint64_t> buffer_sizes_bytes_;  // 0: destroyed
};

}  // namespace nonstop
