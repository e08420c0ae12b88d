// The entry points of ops.h, for the build's own vector target. The cache write is a plain loop: a
// few hundred elements a layer.
#include "cpu/ops.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/check.h"
#include "base/half.h"
#include "cpu/generic/attention.h"
#include "cpu/generic/attention_partial.h"
#include "cpu/generic/ops.h"
#include "cpu/reference/ops.h"
#include "cpu/vec/vec.h"

namespace nonstop::cpu {

using vec::Native;

void RmsNorm(const float* x, const float* w, uint32_t length, float eps, float* y) {
  OpsOn<Native>::RmsNorm(x, w, length, eps, y);
}
void SiluMul(const float* gate, const float* up, uint32_t length, float* y) {
  OpsOn<Native>::SiluMul(gate, up, length, y);
}
void GeluMul(const float* gate, const float* up, uint32_t length, float* y) {
  OpsOn<Native>::GeluMul(gate, up, length, y);
}
void Add(const float* a, const float* b, uint32_t length, float* y) {
  OpsOn<Native>::Add(a, b, length, y);
}
void Scale(const float* x, float factor, uint32_t length, float* y) {
  OpsOn<Native>::Scale(x, factor, length, y);
}
void SoftCap(const float* x, float cap, uint32_t length, float* y) {
  OpsOn<Native>::SoftCap(x, cap, length, y);
}

// Once a token, so in f64 as the reference: an f32 angle is off by 4e-3 at position 100,000.
void RopeTable(uint32_t position, const float* frequencies, uint32_t pair_count, float magnitude,
               float* cos_sin) {
  reference::RopeTable(position, frequencies, pair_count, magnitude, cos_sin);
}

void Rope(float* x, uint32_t head_count, uint32_t head_dim, const float* cos_sin,
          uint32_t pair_count, RopeStyle style) {
  CHECK(2 * pair_count <= head_dim);
  for (uint32_t head = 0; head < head_count; ++head, x += head_dim) {
    OpsOn<Native>::Rope(x, cos_sin, cos_sin + pair_count, pair_count, style);
  }
}

void StoreKv(const float* x, uint32_t head_dim, KvType type, std::byte* out) {
  if (type == KvType::kF32) {
    std::memcpy(out, x, size_t{head_dim} * sizeof(float));
    return;
  }
  for (uint32_t i = 0; i < head_dim; ++i) StoreLe(out + 2 * size_t{i}, FloatToHalf(x[i]));
}

size_t AttentionScratchFloats(uint32_t query_head_count, uint32_t head_dim, uint32_t token_count,
                              uint32_t context_length) {
  const size_t tile = AttentionOn<Native, KvRowF32<Native>>::ScratchFloats(
      query_head_count * token_count, head_dim);
  // The scores of a whole context: of every head in a partial result, of one in the reference.
  const size_t partial =
      size_t{query_head_count} * (size_t{head_dim} + RoundUp(context_length, 4u));
  return std::max(tile, partial);
}

void Attention(const AttentionArgs& args) {
  if (args.head_dim % 8 != 0) {
    reference::Attention(args);
  } else if (args.kv_type == KvType::kF16) {
    AttentionOn<Native, KvRowF16<Native>>(args).Run();
  } else {
    AttentionOn<Native, KvRowF32<Native>>(args).Run();
  }
}

void AttendPartially(const AttentionArgs& args, uint32_t token_begin, uint32_t token_end,
                     float* partial) {
  CHECK(token_begin < token_end && args.head_dim % 8 == 0 && args.kv_type == KvType::kF16);
  PartialAttention<Native>(args, token_begin, token_end, partial).Run();
}

void MergePartials(const AttentionArgs& args, const float* partials, uint32_t partial_count) {
  MergePartialsOn<Native>(args, partials, partial_count);
}

}  // namespace nonstop::cpu
