// The Gpu port of a wasm module: calls become imports of module "nonstop_gpu" (abi/abi.h names
// them), which the host's player plays; what happens later (pipelines, tickets, errors) the host
// reports. What can be checked without a device is checked here, so that a host need not.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "port/gpu.h"

namespace nonstop {

class WasmGpu final : public Gpu {
 public:
  const GpuAdapter& adapter() const override { return adapter_; }
  Result<GpuBufferId> CreateBuffer(GpuBufferUsage usage, uint64_t size_bytes) override;
  void DestroyBuffer(GpuBufferId buffer) override;
  Result<GpuPipelineId> CreatePipeline(const GpuPipelineSource& source) override;
  GpuPipelineState pipeline_state(GpuPipelineId pipeline) const override;
  Result<GpuBindGroupId> CreateBindGroup(GpuPipelineId pipeline,
                                         std::span<const GpuBufferBinding> bindings) override;
  void DestroyBindGroup(GpuBindGroupId bind_group) override;
  Status Upload(GpuBufferId buffer, uint64_t offset_bytes,
                std::span<const std::byte> bytes) override;
  Result<GpuTicket> Submit(std::span<const GpuDispatch> dispatches,
                           std::span<const GpuReadback> readbacks) override;
  GpuTicket last_done() const override { return last_done_; }
  Status status() const override;

  // By the host.
  void SetAdapter(GpuAdapter adapter) { adapter_ = std::move(adapter); }
  void ReportPipeline(GpuPipelineId pipeline, bool is_ready);
  void ReportTicket(GpuTicket ticket);
  // The first is kept: what follows is its consequence.
  void ReportError(Error error);

 private:
  // Ids of what was destroyed are given again.
  struct Ids {
    uint32_t count = 0;
    std::vector<uint32_t> free;

    uint32_t Take();
  };

  Status CheckInside(const char* what, GpuBufferId buffer, uint64_t offset_bytes,
                     uint64_t size_bytes) const;

  GpuAdapter adapter_;
  Ids buffer_ids_;
  Ids bind_group_ids_;
  std::vector<uint64_t> buffer_sizes_bytes_;  // 0: destroyed
  std::vector<GpuPipelineState> pipelines_;
  GpuTicket last_submitted_ = 0;
  GpuTicket last_done_ = 0;
  bool has_failed_ = false;
  Error error_;
};

}  // namespace nonstop
