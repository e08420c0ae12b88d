// A GPU that computes nothing: it checks what a real one would refuse (sizes, alignment, a buffer
// bound for reading and writing in one dispatch) and counts. For plan tests, which need no adapter.
#pragma once

#include <functional>
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
  uint64_t readback_bytes = 0;
};

class NullGpu final : public Gpu {
 public:
  explicit NullGpu(const GpuLimits& limits = {});

  const GpuAdapter& adapter() const override { return adapter_; }
  Result<GpuBufferId> CreateBuffer(GpuBufferUsage usage, uint64_t size_bytes) override;
  void DestroyBuffer(GpuBufferId buffer) override;
  Result<GpuPipelineId> CreatePipeline(const GpuPipelineSource& source) override;
  GpuPipelineState pipeline_state(GpuPipelineId) const override { return GpuPipelineState::kReady; }
  Result<GpuBindGroupId> CreateBindGroup(GpuPipelineId pipeline,
                                         std::span<const GpuBufferBinding> bindings) override;
  void DestroyBindGroup(GpuBindGroupId bind_group) override;
  Status Upload(GpuBufferId buffer, uint64_t offset_bytes,
                std::span<const std::byte> bytes) override;
  // Read-backs arrive at once: as zeros, or as what fills them.
  Result<GpuTicket> Submit(std::span<const GpuDispatch> dispatches,
                           std::span<const GpuReadback> readbacks) override;
  GpuTicket last_done() const override { return counts_.submits; }
  Status status() const override { return {}; }

  void set_subgroups(uint32_t min_size) {
    adapter_.has_subgroups = true;
    adapter_.subgroup_min_size = min_size;
  }
  void set_fallback(bool is_fallback) { adapter_.is_fallback = is_fallback; }
  const GpuCounts& counts() const { return counts_; }
  void set_fill_readback(std::function<void(const GpuReadback&)> fill) { fill_ = std::move(fill); }

 private:
  Status CheckBinding(const GpuBufferBinding& binding) const;
  bool IsInside(GpuBufferId buffer, uint64_t offset_bytes, uint64_t size_bytes) const;

  GpuAdapter adapter_;
  GpuCounts counts_;
  std::function<void(const GpuReadback&)> fill_;
  std::vector<uint64_t> buffer_sizes_bytes_;             // 0: destroyed
  std::vector<std::vector<GpuAccess>> pipeline_access_;  // of each pipeline's bindings
  std::vector<GpuPipelineId> bind_group_pipelines_;
};

}  // namespace nonstop
