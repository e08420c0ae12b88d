// The entry points of ops.h.
#include "cpu/ops.h"

#include "cpu/reference/ops.h"

namespace nonstop::cpu {

void RmsNorm(const float* x, const float* w, uint32_t length, float eps, float* y) {
  reference::RmsNorm(x, w, length, eps, y);
}
void SiluMul(const float* gate, const float* up, uint32_t length, float* y) {
  reference::SiluMul(gate, up, length, y);
}
void GeluMul(const float* gate, const float* up, uint32_t length, float* y) {
  reference::GeluMul(gate, up, length, y);
}
void Add(const float* a, const float* b, uint32_t length, float* y) {
  reference::Add(a, b, length, y);
}
void Scale(const float* x, float factor, uint32_t length, float* y) {
  reference::Scale(x, factor, length, y);
}
void SoftCap(const float* x, float cap, uint32_t length, float* y) {
  reference::SoftCap(x, cap, length, y);
}
void RopeTable(uint32_t position, const float* frequencies, uint32_t pair_count, float magnitude,
               float* cos_sin) {
  reference::RopeTable(position, frequencies, pair_count, magnitude, cos_sin);
}
void Rope(float* x, uint32_t head_count, uint32_t head_dim, const float* cos_sin,
          uint32_t pair_count, RopeStyle style) {
  reference::Rope(x, head_count, head_dim, cos_sin, pair_count, style);
}
void StoreKv(const float* x, uint32_t head_dim, KvType type, std::byte* out) {
  reference::StoreKv(x, head_dim, type, out);
}
size_t AttentionScratchFloats(uint32_t query_head_count, uint32_t, uint32_t token_count) {
  return size_t{query_head_count} * (token_count + 3) / 4 * 4;
}
void Attention(const AttentionArgs& args) { reference::Attention(args); }

}  // namespace nonstop::cpu
