// What the module of ./run bench measures: plain reading of memory, and the engine's kernels by
// themselves. A job is prepared once, then run in passes on all threads; the host takes the time.
//
// Goals: the same compiler, flags and threads as the engine's; weights that come from memory, not
// from a cache. Non-goals: right results (the engine's tests see to those).
#pragma once

#include <memory>

#include "cpu/matrix.h"
#include "cpu/ops.h"

namespace nonstop::bench {

class Job {
 public:
  virtual ~Job() = default;
  virtual void RunPart(uint32_t part, uint32_t part_count) = 0;  // of one pass

  // Of one pass: bytes of weights or cache, as the file or the cache holds them; multiplications
  // and additions.
  double read_bytes = 0;
  double operations = 0;
};

// All of these give nullptr when memory is short.

// Reads `size_bytes` once: what a kernel that did no arithmetic could reach.
std::unique_ptr<Job> MakeReadJob(uint64_t size_bytes);

struct MatMulShape {
  uint32_t row_count;
  uint32_t column_count;
  uint32_t token_count;
};

// As many matrices of that type and shape, one behind the other, as fill `size_bytes` of a file;
// 8-bit activations where the type takes them. Threads share each matrix by rows.
std::unique_ptr<Job> MakeMatMulJob(DType dtype, const MatMulShape& shape, uint64_t size_bytes);

struct AttentionShape {
  uint32_t layer_count;
  uint32_t query_head_count;
  uint32_t kv_head_count;
  uint32_t head_dim;
  uint32_t context_length;
  uint32_t token_count;
};

// Attention of the last `token_count` tokens of a context, in all layers, over an f16 cache.
std::unique_ptr<Job> MakeAttentionJob(const AttentionShape& shape);

}  // namespace nonstop::bench
