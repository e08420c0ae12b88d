// Vector operations of the CPU path besides the matrix product: one row or one head group at a
// time, so that a step can split its work by rows or heads among threads. generic/ vectorises them
// over vec/; reference/ holds the same functions in plain loops (namespace reference), the oracle.
// All arrays are f32 unless said; none may alias unless said.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nonstop::cpu {

// y = x / sqrt(mean(x^2) + eps) * w. y may be x. Source: Zhang & Sennrich 2019.
void RmsNorm(const float* x, const float* w, uint32_t length, float eps, float* y);

// y = act(gate) * up. SiLU: x / (1 + exp(-x)); GELU: the tanh form (llama.cpp's ggml_gelu).
void SiluMul(const float* gate, const float* up, uint32_t length, float* y);
void GeluMul(const float* gate, const float* up, uint32_t length, float* y);

void Add(const float* a, const float* b, uint32_t length, float* y);  // y may be a or b
void Scale(const float* x, float factor, uint32_t length, float* y);  // y may be x
// y = cap * tanh(x / cap). y may be x.
void SoftCap(const float* x, float cap, uint32_t length, float* y);

enum class RopeStyle : uint8_t {
  kAdjacent,  // pairs (2i, 2i+1): llama ("normal" in llama.cpp)
  kHalves,    // pairs (i, i + dim/2): qwen, gemma, phi ("neox")
};

// cos and sin of one position, for `pair_count` = rotated_dim / 2 frequencies:
// angle_i = position * frequency[i]; both multiplied by `magnitude` (1 but for YaRN/longrope).
void RopeTable(uint32_t position, const float* frequencies, uint32_t pair_count, float magnitude,
               float* cos_sin /* pair_count cosines, then pair_count sines */);
// Rotates the first 2 * pair_count elements of each head in place. x: (head_count, head_dim).
void Rope(float* x, uint32_t head_count, uint32_t head_dim, const float* cos_sin,
          uint32_t pair_count, RopeStyle style);

enum class KvType : uint8_t { kF16, kF32 };

inline constexpr uint32_t kKvPageTokenCount = 256;

// Stores one head's row in a page: head_dim values as KvType.
void StoreKv(const float* x, uint32_t head_dim, KvType type, std::byte* out);

// Attention of the query heads that share one KV head, for tokens at neighbouring positions of one
// sequence: out[t, h] = softmax(cap(scale * q[t, h] . K)) V over the cached tokens that t sees.
// pages[i] is the base of the sequence's i-th page (kKvPageTokenCount tokens); K rows of this head
// lie at pages[i] + k_offset_bytes, (kKvPageTokenCount, head_dim) of KvType; V likewise.
struct AttentionArgs {
  const std::byte* const* pages;
  uint64_t k_offset_bytes;
  uint64_t v_offset_bytes;
  KvType kv_type;
  uint32_t head_dim;
  uint32_t query_head_count;  // of the group
  uint32_t position;          // of the first token
  uint32_t token_count;
  uint32_t window;  // a token sees this many, the newest being itself; 0: all before it and itself
  float scale;
  float soft_cap;  // 0: none
  const float* q;  // (token_count, q_stride), of which (query_head_count, head_dim) are read
  size_t q_stride;
  float* out;  // (token_count, out_stride), of which (query_head_count, head_dim) are written
  size_t out_stride;
  float* scratch;  // AttentionScratchFloats() floats

  uint32_t FirstSeenBy(uint32_t token) const {
    const uint32_t end = position + token + 1;
    return window != 0 && end > window ? end - window : 0;
  }
};
size_t AttentionScratchFloats(uint32_t query_head_count, uint32_t head_dim, uint32_t token_count,
                              uint32_t context_length);
void Attention(const AttentionArgs& args);

// The same for one token over part of what it sees, so that threads can share a long context.
// A partial result is (query_head_count, head_dim + kPartialExtra): the weighted sum of V, then the
// largest score and the sum of the weights, exp(score - largest). f16 cache, head_dim % 8 == 0.
inline constexpr uint32_t kPartialExtra = 4;  // of which two are used
void AttendPartially(const AttentionArgs& args, uint32_t token_begin, uint32_t token_end,
                     float* partial);
// Writes args.out from `partial_count` results of neighbouring parts.
void MergePartials(const AttentionArgs& args, const float* partials, uint32_t partial_count);

}  // namespace nonstop::cpu
