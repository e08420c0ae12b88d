// The KV cache on the GPU: pages of 256 tokens, in one buffer for each group of layers, so that a
// buffer stays within one binding however long the context. Buffers grow by being copied.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "port/gpu.h"
#include "webgpu/rows.h"

namespace nonstop {

class GpuKvCache {
 public:
  struct Shape {
    uint32_t layer_count = 0;
    uint32_t head_dim = 0;
    uint32_t kv_head_count = 0;
    bool is_f32 = false;
    uint32_t max_page_count = 0;  // of all sequences
  };

  // `gpu` must outlive the cache. No memory is asked for yet; `copy` is being compiled.
  static Result<std::unique_ptr<GpuKvCache>> Create(Gpu* gpu, const Shape& shape);
  GpuKvCache(const GpuKvCache&) = delete;
  GpuKvCache& operator=(const GpuKvCache&) = delete;
  ~GpuKvCache();

  uint32_t group_count() const { return group_count_; }
  uint32_t GroupOf(uint32_t layer) const { return layer / group_layers_; }
  CachePlace PlaceOf(uint32_t layer) const;

  // Room for pages 0 .. page_count - 1. True: the buffers are others than before, and all bind
  // groups with them must be made anew. On error nothing has changed.
  Result<bool> Reserve(uint32_t page_count);
  uint32_t page_count() const { return page_count_; }
  GpuBufferBinding Bind(uint32_t group, GpuAccess access) const;
  GpuPipelineId copy_pipeline() const { return copy_pipeline_; }
  uint64_t size_bytes() const;

 private:
  GpuKvCache(Gpu* gpu, const Shape& shape);

  uint64_t GroupSizeBytes(uint32_t page_count) const;
  void Destroy(std::vector<GpuBufferId>* buffers);
  Status Copy(GpuBufferId from, GpuBufferId to, uint64_t size_bytes);

  Gpu& gpu_;
  Shape shape_;
  uint32_t group_layers_ = 1;
  uint32_t group_count_ = 1;
  uint32_t page_limit_ = 0;  // what fits a binding
  uint32_t page_count_ = 0;
  std::vector<GpuBufferId> buffers_;
  GpuPipelineId copy_pipeline_ = kNoBuffer;
};

}  // namespace nonstop
