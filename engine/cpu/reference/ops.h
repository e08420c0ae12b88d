// The oracle of cpu/ops.h: the same functions in plain loops with f64 sums, as the papers write
// them. Tests, the self-test at load and the differential fuzzers compare the kernels with these.
#pragma once

#include "cpu/ops.h"

namespace nonstop::cpu::reference {

void RmsNorm(const float* x, const float* w, uint32_t length, float eps, float* y);
void SiluMul(const float* gate, const float* up, uint32_t length, float* y);
void GeluMul(const float* gate, const float* up, uint32_t length, float* y);
void Add(const float* a, const float* b, uint32_t length, float* y);
void Scale(const float* x, float factor, uint32_t length, float* y);
void SoftCap(const float* x, float cap, uint32_t length, float* y);
void RopeTable(uint32_t position, const float* frequencies, uint32_t pair_count, float magnitude,
               float* cos_sin);
void Rope(float* x, uint32_t head_count, uint32_t head_dim, const float* cos_sin,
          uint32_t pair_count, RopeStyle style);
void StoreKv(const float* x, uint32_t head_dim, KvType type, std::byte* out);
void Attention(const AttentionArgs& args);

}  // namespace nonstop::cpu::reference
