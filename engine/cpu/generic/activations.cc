// Quantization of activations; see activations.h.
#include "cpu/generic/activations.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace nonstop::cpu {
namespace {

// Below this 127 / largest would overflow; such a block is zero.
constexpr float kSmallestMagnitude = 0x1p-120f;
// Adding 1.5 * 2^23 leaves the nearest integer (ties to even) in the low bits of the mantissa.
constexpr float kRoundingShift = 12582912.0f;

// The largest magnitude; NaN and infinity compare above all finite values as bits.
uint32_t LargestMagnitudeBits(const float* x) {
  uint32_t largest = 0;
  for (uint32_t i = 0; i < kActivationBlockLength; ++i) {
    largest = std::max(largest, std::bit_cast<uint32_t>(x[i]) & 0x7fffffffu);
  }
  return largest;
}

// Writes q and returns the scale; NaN if a value is NaN or beyond the limit.
float QuantizeBlock(const float* x, int32_t* q) {
  const auto largest = std::bit_cast<float>(LargestMagnitudeBits(x));
  if (!(largest < kActivationLimit) || largest < kSmallestMagnitude) {
    std::fill_n(q, kActivationBlockLength, 0);
    return largest < kSmallestMagnitude ? 0.0f : std::numeric_limits<float>::quiet_NaN();
  }
  const float inverse = 127.0f / largest;
  for (uint32_t i = 0; i < kActivationBlockLength; ++i) {
    q[i] = std::bit_cast<int32_t>(x[i] * inverse + kRoundingShift) -
           std::bit_cast<int32_t>(kRoundingShift);
  }
  return largest / 127.0f * kActivationScaleFactor;
}

void StoreQuants(const int32_t* q, ActivationBlock<true>* block) {
  block->negative_sum = 0;
  for (uint32_t i = 0; i < kActivationBlockLength; ++i) {
    block->q[i] = static_cast<int8_t>(q[i]);
    block->positive[i] = static_cast<uint8_t>(std::max(q[i], 0));
    block->negative[i] = static_cast<uint8_t>(std::max(-q[i], 0));
    block->negative_sum += block->negative[i];
  }
}

void StoreQuants(const int32_t* q, ActivationBlock<false>* block) {
  for (uint32_t i = 0; i < kActivationBlockLength; ++i) block->q[i] = static_cast<int16_t>(q[i]);
}

}  // namespace

template <bool kByteDot>
void QuantizeRow(const float* x, uint32_t column_count, std::byte* out) {
  auto* block = reinterpret_cast<ActivationBlock<kByteDot>*>(out);
  int32_t q[kActivationBlockLength];
  float padded[kActivationBlockLength];
  for (uint32_t begin = 0; begin < column_count; begin += kActivationBlockLength, ++block) {
    const float* values = x + begin;
    if (column_count - begin < kActivationBlockLength) {
      std::fill_n(std::copy(values, x + column_count, padded),
                  kActivationBlockLength - (column_count - begin), 0.0f);
      values = padded;
    }
    block->scale = QuantizeBlock(values, q);
    StoreQuants(q, block);
    block->sums[0] = block->sums[1] = 0;
    for (uint32_t i = 0; i < kActivationBlockLength; ++i) block->sums[i / 16] += q[i];
    block->scaled_sum = block->scale * static_cast<float>(block->sums[0] + block->sums[1]);
  }
}

template <bool kByteDot>
void DequantizeActivations(const std::byte* row, uint32_t begin, uint32_t count, float* out) {
  const auto* blocks = reinterpret_cast<const ActivationBlock<kByteDot>*>(row);
  for (uint32_t i = 0; i < count; ++i) {
    const ActivationBlock<kByteDot>& block = blocks[(begin + i) / kActivationBlockLength];
    out[i] = block.scale / kActivationScaleFactor *
             static_cast<float>(block.q[(begin + i) % kActivationBlockLength]);
  }
}

template void QuantizeRow<true>(const float*, uint32_t, std::byte*);
template void QuantizeRow<false>(const float*, uint32_t, std::byte*);
template void DequantizeActivations<true>(const std::byte*, uint32_t, uint32_t, float*);
template void DequantizeActivations<false>(const std::byte*, uint32_t, uint32_t, float*);

}  // namespace nonstop::cpu
