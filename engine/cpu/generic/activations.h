// 8-bit activations: blocks of 32 with an f32 step, x ~ step * q, q in -127..127. The block also
// holds what the build's inner product wants beside q. Byte dots multiply a signed byte by one in
// 0..127, so signed weights meet the magnitude of x with its sign moved to them (w * -m = ~w * m +
// m); 16-bit dots take q widened.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nonstop::cpu {

inline constexpr uint32_t kActivationBlockLength = 32;

// Steps are stored times 2^56, so that f16 weight scales need no multiplication to become f32
// (quant_matmul.h). Values from 2^70 on count as infinite.
inline constexpr float kActivationScaleFactor = 0x1p56f;
inline constexpr float kActivationLimit = 0x1p70f;

template <bool kByteDot>
struct ActivationBlock;

template <>
struct ActivationBlock<true> {
  int8_t q[32];
  uint8_t magnitude[32];  // |q|
  uint8_t sign[32];       // 0xff where q is negative, else 0
  float scale;            // step * kActivationScaleFactor
  float scaled_sum;       // scale * sum(q)
  int32_t sums[2];        // of q, of each half of the block
  int32_t negative_sum;   // of the magnitudes of negative q
};

template <>
struct ActivationBlock<false> {
  int16_t q[32];
  float scale;
  float scaled_sum;
  int32_t sums[2];
};

static_assert(sizeof(ActivationBlock<true>) == 116 && sizeof(ActivationBlock<false>) == 80);

template <bool kByteDot>
constexpr size_t Q8RowSizeBytes(uint32_t column_count) {
  const size_t block_count = (size_t{column_count} + 31) / kActivationBlockLength;
  return (block_count * sizeof(ActivationBlock<kByteDot>) + 63) / 64 * 64;
}

// A last block that is not full is padded with zeros.
template <bool kByteDot>
void QuantizeRow(const float* x, uint32_t column_count, std::byte* out);

// Back to f32, elements [begin, begin + count); begin is a multiple of 32.
template <bool kByteDot>
void DequantizeActivations(const std::byte* row, uint32_t begin, uint32_t count, float* out);

}  // namespace nonstop::cpu
