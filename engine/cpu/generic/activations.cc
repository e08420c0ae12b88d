// Quantization of activations, see activations.h; over the build's own vector target. Every target
// gives the same bits.
#include "cpu/generic/activations.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cpu/vec/vec.h"

namespace nonstop::cpu {
namespace {

using S = vec::Native;
using I = S::I;
using F = S::F;

// Below this 127 / largest would overflow; such a block is zero.
constexpr float kSmallestMagnitude = 0x1p-120f;
constexpr uint32_t kVectorCount = kActivationBlockLength / 4;

struct Quants {
  I q[kVectorCount];  // 4 columns each
  float scale;        // NaN if a value is NaN or beyond the limit
};

// The largest magnitude; NaN if a value is NaN or infinite.
float LargestMagnitude(const float* x) {
  const I magnitude_bits = S::Splat32(0x7fffffff);
  F largest = S::SplatF(0), nothing = S::SplatF(0);
  for (uint32_t i = 0; i < kVectorCount; ++i) {
    const F value = S::LoadF(x + 4 * i);
    largest = S::Max(largest, S::FloatOf(S::And(S::BitsOf(value), magnitude_bits)));
    nothing = S::Add(nothing, S::Sub(value, value));
  }
  float lanes[4];
  S::StoreF(lanes, largest);
  return std::max(std::max(lanes[0], lanes[1]), std::max(lanes[2], lanes[3])) + S::Sum(nothing);
}

Quants QuantizeBlock(const float* x) {
  const float largest = LargestMagnitude(x);
  Quants quants;
  if (!(largest < kActivationLimit) || largest < kSmallestMagnitude) {
    std::fill_n(quants.q, kVectorCount, S::Splat32(0));
    quants.scale = largest < kSmallestMagnitude ? 0.0f : std::numeric_limits<float>::quiet_NaN();
    return quants;
  }
  const F inverse = S::SplatF(127.0f / largest);
  for (uint32_t i = 0; i < kVectorCount; ++i) {
    quants.q[i] = S::RoundToInt(S::Mul(S::LoadF(x + 4 * i), inverse));
  }
  quants.scale = largest / 127.0f * kActivationScaleFactor;
  return quants;
}

int32_t SumOf(const I* vectors, uint32_t count) {
  I sum = vectors[0];
  for (uint32_t i = 1; i < count; ++i) sum = S::Add32(sum, vectors[i]);
  int32_t lanes[4];
  S::StoreI(lanes, sum);
  return lanes[0] + lanes[1] + lanes[2] + lanes[3];
}

template <class Byte>
void StoreBytes(const I* vectors, Byte* out) {
  for (uint32_t i = 0; i < kVectorCount; i += 4) {
    S::StoreI(out + 4 * i, S::Narrow16(S::Narrow32(vectors[i], vectors[i + 1]),
                                       S::Narrow32(vectors[i + 2], vectors[i + 3])));
  }
}

void StoreQuants(const Quants& quants, ActivationBlock<true>* block) {
  I sign[kVectorCount], magnitude[kVectorCount];
  for (uint32_t i = 0; i < kVectorCount; ++i) {
    sign[i] = S::SignMask32(quants.q[i]);
    magnitude[i] = S::Sub32(S::Xor(quants.q[i], sign[i]), sign[i]);
  }
  StoreBytes(quants.q, block->q);
  StoreBytes(sign, block->sign);
  StoreBytes(magnitude, block->magnitude);
  block->negative_sum = (SumOf(magnitude, kVectorCount) - (block->sums[0] + block->sums[1])) / 2;
}

void StoreQuants(const Quants& quants, ActivationBlock<false>* block) {
  for (uint32_t i = 0; i < kVectorCount; i += 2) {
    S::StoreI(block->q + 4 * i, S::Narrow32(quants.q[i], quants.q[i + 1]));
  }
}

}  // namespace

template <bool kByteDot>
void QuantizeRow(const float* x, uint32_t column_count, std::byte* out) {
  auto* block = reinterpret_cast<ActivationBlock<kByteDot>*>(out);
  for (uint32_t begin = 0; begin < column_count; begin += kActivationBlockLength, ++block) {
    const float* values = x + begin;
    float padded[kActivationBlockLength];
    if (column_count - begin < kActivationBlockLength) {
      std::fill_n(std::copy(values, x + column_count, padded),
                  kActivationBlockLength - (column_count - begin), 0.0f);
      values = padded;
    }
    const Quants quants = QuantizeBlock(values);
    block->scale = quants.scale;
    block->sums[0] = SumOf(quants.q, kVectorCount / 2);
    block->sums[1] = SumOf(quants.q + kVectorCount / 2, kVectorCount / 2);
    block->scaled_sum = block->scale * static_cast<float>(block->sums[0] + block->sums[1]);
    StoreQuants(quants, block);
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
