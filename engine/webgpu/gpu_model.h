// What the programs of one model share: weights, cache, state, pipelines, arenas.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "plan/plan.h"
#include "webgpu/kernel_call.h"
#include "webgpu/kv_cache.h"
#include "webgpu/state.h"
#include "webgpu/weights.h"

namespace nonstop {

struct GpuModel {
  Gpu* gpu = nullptr;
  const GpuWeights* weights = nullptr;
  GpuKvCache* cache = nullptr;
  StateLayout layout;
  GpuBufferId state = kNoBuffer;
  bool uses_subgroups = false;
  uint32_t subgroup_min_size = 0;
  uint32_t workgroup_bytes = 0;  // of memory that a workgroup may have
};

// Pipelines by text, so that equal kernels are compiled once.
class PipelineSet {
 public:
  explicit PipelineSet(Gpu* gpu) : gpu_(*gpu) {}

  // Of an optional one nobody minds that it does not compile.
  Result<GpuPipelineId> Get(const KernelSource& source, bool is_optional = false);
  size_t count() const { return pipelines_.size(); }
  // No more pipelines will be asked for.
  void DropText();
  // False while one of them is compiling.
  Result<bool> AreReady() const;

 private:
  struct Entry {
    std::string name;
    std::string wgsl;  // until DropText
    GpuPipelineId id;
    bool is_optional;
  };

  Gpu& gpu_;
  std::vector<Entry> pipelines_;
};

// The buffers that a plan's values lie in.
class GpuArenas {
 public:
  static Result<std::unique_ptr<GpuArenas>> Create(Gpu* gpu, const Plan& plan);
  GpuArenas(const GpuArenas&) = delete;
  GpuArenas& operator=(const GpuArenas&) = delete;
  ~GpuArenas();

  GpuBufferId arena(uint16_t index) const { return arenas_[index].buffer; }
  // Between the dispatches of one step: normed rows; q, k and v before they are rotated.
  GpuBufferId normed_rows() const { return normed_rows_.buffer; }
  GpuBufferId qkv_rows() const { return qkv_rows_.buffer; }
  // What attention leaves in parts; of decode plans only.
  GpuBufferId parts() const { return parts_.buffer; }
  // Between the dispatches of sampling; of decode plans only.
  GpuBufferId best() const { return best_.buffer; }
  // What workgroups of the resident plan hand to each other; zeros at first. Once for all programs.
  Status AllocateRelay(uint64_t size_bytes);
  void DropRelay();
  GpuBufferId relay() const { return relay_.buffer; }
  // To bind it whole.
  uint64_t SizeBytesOf(GpuBufferId buffer) const;
  uint64_t size_bytes() const;

 private:
  struct Buffer {
    GpuBufferId buffer = kNoBuffer;
    uint64_t size_bytes = 0;
  };

  explicit GpuArenas(Gpu* gpu) : gpu_(*gpu) {}
  Status Allocate(uint64_t size_bytes, Buffer* buffer);
  void Destroy(const Buffer& buffer);

  Gpu& gpu_;
  std::vector<Buffer> arenas_;
  Buffer normed_rows_, qkv_rows_, parts_, best_, relay_;
};

}  // namespace nonstop
