// The entry points of ops.h, for the build's own vector target. RoPE and the cache write are plain
// loops: a few hundred elements a layer.
#include "cpu/ops.h"

#include "base/bytes.h"
#include "base/check.h"
#include "base/half.h"
#include "cpu/generic/attention.h"
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
  const uint32_t element_step = style == RopeStyle::kAdjacent ? 2 : 1;
  const uint32_t partner = style == RopeStyle::kAdjacent ? 1 : pair_count;
  const float* sines = cos_sin + pair_count;
  for (uint32_t head = 0; head < head_count; ++head, x += head_dim) {
    for (uint32_t i = 0; i < pair_count; ++i) {
      float* at = x + size_t{i} * element_step;
      const float a = at[0], b = at[partner];
      at[0] = a * cos_sin[i] - b * sines[i];
      at[partner] = a * sines[i] + b * cos_sin[i];
    }
  }
}

void StoreKv(const float* x, uint32_t head_dim, KvType type, std::byte* out) {
  if (type == KvType::kF32) {
    std::memcpy(out, x, size_t{head_dim} * sizeof(float));
    return;
  }
  for (uint32_t i = 0; i < head_dim; ++i) StoreLe(out + 2 * size_t{i}, FloatToHalf(x[i]));
}

size_t AttentionScratchFloats(uint32_t query_head_count, uint32_t head_dim, uint32_t token_count) {
  return size_t{query_head_count} * (size_t{head_dim} + RoundUp(token_count, 4u));
}

void Attention(const AttentionArgs& args) {
  CHECK(args.token_begin < args.token_end);
  if (args.head_dim % 8 != 0) {
    reference::Attention(args);
  } else if (args.kv_type == KvType::kF16) {
    AttentionOn<Native, KvRowF16<Native>>(args).Run();
  } else {
    AttentionOn<Native, KvRowF32<Native>>(args).Run();
  }
}

}  // namespace nonstop::cpu
