// The GPU as the engine sees it: it owns buffers and pipelines by number, and plays step lists. The
// engine itself never calls a GPU API: in the browser and Node a TypeScript player stands behind
// this port, in the native host a C++ one on Dawn, and in plan tests the null GPU, which only
// records.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace nonstop {

using GpuBufferId = uint32_t;
using GpuPipelineId = uint32_t;
using GpuBindGroupId = uint32_t;

struct GpuLimits {  // WebGPU's defaults
  uint64_t max_buffer_size_bytes = 256u << 20;
  uint64_t max_storage_binding_size_bytes = 128u << 20;
  uint32_t max_storage_buffers_per_stage = 8;
  uint32_t max_workgroup_storage_bytes = 16'384;
  uint32_t max_workgroup_invocations = 256;
  uint32_t min_storage_offset_alignment = 256;
  uint32_t max_workgroups_per_dimension = 65'535;
};

struct GpuAdapter {
  std::string vendor;
  std::string architecture;
  std::string description;
  GpuLimits limits;
  bool has_f16 = false;
  bool has_subgroups = false;
  uint32_t subgroup_min_size = 4;
  bool is_fallback = false;  // a software adapter
};

enum class GpuBufferUsage : uint8_t { kWeights, kActivations, kCache, kState, kParams, kReadback };
enum class GpuAccess : uint8_t { kRead, kReadWrite, kUniform };

struct GpuBufferBinding {
  GpuBufferId buffer;
  GpuAccess access;
  uint64_t offset_bytes;
  uint64_t size_bytes;
};

// One dispatch. POD, in linear memory: the player reads it where it lies.
struct GpuDispatch {
  GpuPipelineId pipeline;
  GpuBindGroupId bind_group;
  uint32_t params_offset_bytes;
  uint32_t workgroups[3];
};

// Entry point "main"; binding i of group 0 has access bindings[i]. A kUniform binding takes the
// dispatch's params_offset_bytes as its dynamic offset.
struct GpuPipelineSource {
  std::string_view name;
  std::string_view wgsl;
  std::span<const GpuAccess> bindings;
  bool is_optional = false;  // should it fail, nothing else does
};

// Bytes to be copied to linear memory once the submission's dispatches have run.
struct GpuReadback {
  GpuBufferId buffer;
  uint32_t size_bytes;    // multiple of 4
  uint64_t offset_bytes;  // multiple of 4
  std::byte* destination;
};

// Submissions are numbered from 1 and end in order.
using GpuTicket = uint32_t;

enum class GpuPipelineState : uint8_t { kPending, kReady, kFailed };

class Gpu {
 public:
  virtual ~Gpu() = default;
  virtual const GpuAdapter& adapter() const = 0;
  // `size_bytes` is rounded up to pages of 4096 bytes: a host may place the buffer in shared
  // memory.
  virtual Result<GpuBufferId> CreateBuffer(GpuBufferUsage usage, uint64_t size_bytes) = 0;
  virtual void DestroyBuffer(GpuBufferId buffer) = 0;
  // Begins to compile; to be used when its state is kReady.
  virtual Result<GpuPipelineId> CreatePipeline(const GpuPipelineSource& source) = 0;
  virtual GpuPipelineState pipeline_state(GpuPipelineId pipeline) const = 0;
  // May be made before the pipeline is ready.
  virtual Result<GpuBindGroupId> CreateBindGroup(GpuPipelineId pipeline,
                                                 std::span<const GpuBufferBinding> bindings) = 0;
  virtual void DestroyBindGroup(GpuBindGroupId bind_group) = 0;
  // Offset and size are multiples of 4.
  virtual Status Upload(GpuBufferId buffer, uint64_t offset_bytes,
                        std::span<const std::byte> bytes) = 0;
  // Encodes all dispatches in one pass and then the read-backs, and submits.
  virtual Result<GpuTicket> Submit(std::span<const GpuDispatch> dispatches,
                                   std::span<const GpuReadback> readbacks) = 0;
  // The latest submission with read-backs whose bytes have all arrived, and so every one before it.
  virtual GpuTicket last_done() const = 0;
  // The first thing that went wrong outside a call: a pipeline, an allocation, a lost device.
  virtual Status status() const = 0;
};

}  // namespace nonstop
