// Kernel calls of attention: for a few rows of any sequences, split over the context, and for the
// rows of a prompt, in tiles.
#pragma once

#include <cstdint>
#include <optional>

#include "graph/op.h"
#include "webgpu/attention_parts.h"
#include "webgpu/rows.h"

namespace nonstop {

struct AttentionOp {
  ActivationPlace q, y;  // y, for decode: its parts
  uint32_t head_count = 0;
  CachePlace cache;
  float scale = 1.0f;
  float soft_cap = 0.0f;  // 0: none
  uint32_t window = 0;    // 0: sees all before
  StateShape state;
  // Instead of q: the products of q, k and v, which the kernel then norms, rotates and writes to
  // the cache itself. See CanFuseHeadRows.
  std::optional<HeadRows> rows;
};

// How the decode kernel cuts its work.
struct AttentionSplit {
  uint32_t tile_heads = 1;   // query heads of a workgroup, that share a KV head
  uint32_t tile_count = 1;   // of a KV head
  uint32_t range_count = 1;  // most ranges of a context
};
// `keeps_groups`: a workgroup has all query heads of its KV head, as far as they fit.
AttentionSplit SplitAttention(uint32_t head_count, uint32_t kv_head_count, uint32_t head_dim,
                              uint32_t row_limit, bool keeps_groups);

// Whether attention of this shape has kernels: an even head_dim of at most 512.
Status CheckAttention(uint32_t head_dim);

// Whether the decode kernel may do rope_kv's part: one workgroup has all heads of a KV head, and
// rows of the cache are whole vectors. Each row must be of a sequence of its own.
bool CanFuseHeadRows(uint32_t head_count, uint32_t kv_head_count, uint32_t head_dim);

// Where the decode kernel leaves what, for runs of up to `row_limit` rows.
AttentionParts PartsOf(const AttentionOp& op, uint32_t row_limit);

KernelCall MakeDecodeAttentionCall(const AttentionOp& op, uint32_t row_limit);
// y of the parts at x.
KernelCall MakeCombineCall(const AttentionParts& parts, ActivationPlace x, ActivationPlace y,
                           const StateShape& state);
// Of up to `prompt_limit` sequences.
KernelCall MakePrefillAttentionCall(const AttentionOp& op, uint32_t prompt_limit);

}  // namespace nonstop
