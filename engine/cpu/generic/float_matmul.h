// The product of groups of 8 float rows with f32 activations: F32, F16 and BF16 matrices in
// kInterleaved8 (for each column the 8 rows' values), and f32 tiles of dequantized weights.
// Each row has an accumulator for even and one for odd columns of a chunk of at most 256, whatever
// the number of tokens; so a token's result does not depend on what it is computed together with.
#pragma once

#include "cpu/generic/quant_take.h"

namespace nonstop::cpu {

inline constexpr uint32_t kFloatChunk = 256;

// Eight rows' values at one column.
template <class S>
struct ElementF32 {
  static constexpr uint32_t kSizeBytes = 4;
  static FloatPair<S> Load(const std::byte* w) { return LoadFloats8<S>(w); }
};
template <class S>
struct ElementF16 {
  static constexpr uint32_t kSizeBytes = 2;
  static FloatPair<S> Load(const std::byte* w) {
    const FloatPair<S> small = LoadSmallHalves8<S>(w);
    const auto factor = S::SplatF(0x1p112f);
    return {{S::Mul(small.half[0], factor), S::Mul(small.half[1], factor)}};
  }
};
template <class S>
struct ElementBF16 {
  static constexpr uint32_t kSizeBytes = 2;
  static FloatPair<S> Load(const std::byte* w) {
    const auto v = S::LoadI(w);
    return {{S::FloatOf(S::ShiftLeft32(S::WidenLow16(v), 16)),
             S::FloatOf(S::ShiftLeft32(S::WidenHigh16(v), 16))}};
  }
};

// sums[8 * t + r] = the sum over `column_count` columns; x rows `x_stride` floats apart.
using FloatKernel = void (*)(const std::byte* w, uint32_t column_count, const float* x,
                             size_t x_stride, float* sums);

// Columns first, first + 2, ...
template <class S, class Element, int kTokenCount>
inline void AddColumns(const std::byte* w, uint32_t first, uint32_t column_count, const float* x,
                       size_t x_stride, FloatPair<S> (&acc)[kTokenCount]) {
  for (uint32_t k = first; k < column_count; k += 2) {
    const FloatPair<S> weights =
        Element::Load(w + size_t{k} * kGroupRowCount * Element::kSizeBytes);
#pragma clang loop unroll(full)
    for (int t = 0; t < kTokenCount; ++t) {
      const auto value = S::LoadSplatF(x + static_cast<size_t>(t) * x_stride + k);
      acc[t].half[0] = S::Fma(weights.half[0], value, acc[t].half[0]);
      acc[t].half[1] = S::Fma(weights.half[1], value, acc[t].half[1]);
    }
  }
}

// One token: both accumulators at once, for the latency of the additions.
template <class S, class Element>
inline void AddColumnPairs(const std::byte* w, uint32_t column_count, const float* x,
                           FloatPair<S>* even, FloatPair<S>* odd) {
  constexpr size_t kColumnSizeBytes = size_t{kGroupRowCount} * Element::kSizeBytes;
  uint32_t k = 0;
  for (; k + 2 <= column_count; k += 2, w += 2 * kColumnSizeBytes) {
    const FloatPair<S> w0 = Element::Load(w), w1 = Element::Load(w + kColumnSizeBytes);
    const auto x0 = S::LoadSplatF(x + k), x1 = S::LoadSplatF(x + k + 1);
#pragma clang loop unroll(full)
    for (int half = 0; half < 2; ++half) {
      even->half[half] = S::Fma(w0.half[half], x0, even->half[half]);
      odd->half[half] = S::Fma(w1.half[half], x1, odd->half[half]);
    }
  }
  if (k == column_count) return;
  const FloatPair<S> last = Element::Load(w);
  for (int half = 0; half < 2; ++half) {
    even->half[half] = S::Fma(last.half[half], S::LoadSplatF(x + k), even->half[half]);
  }
}

template <class S, class Element, int kTokenCount>
void MultiplyFloats(const std::byte* w, uint32_t column_count, const float* x, size_t x_stride,
                    float* sums) {
  FloatPair<S> even[kTokenCount], odd[kTokenCount];
  for (int t = 0; t < kTokenCount; ++t) even[t] = odd[t] = {{S::SplatF(0), S::SplatF(0)}};
  if constexpr (kTokenCount == 1) {
    AddColumnPairs<S, Element>(w, column_count, x, even, odd);
  } else {
    AddColumns<S, Element, kTokenCount>(w, 0, column_count, x, x_stride, even);
    AddColumns<S, Element, kTokenCount>(w, 1, column_count, x, x_stride, odd);
  }
  for (int t = 0; t < kTokenCount; ++t) {
    for (int half = 0; half < 2; ++half) {
      S::StoreF(sums + t * 8 + half * 4, S::Add(even[t].half[half], odd[t].half[half]));
    }
  }
}

struct FloatKernels {
  DType dtype;
  uint32_t element_size_bytes;
  FloatKernel tokens_1, tokens_4;
};

template <class S>
inline constexpr FloatKernels kFloatKernels[] = {
    {DType::kF32, 4, MultiplyFloats<S, ElementF32<S>, 1>, MultiplyFloats<S, ElementF32<S>, 4>},
    {DType::kF16, 2, MultiplyFloats<S, ElementF16<S>, 1>, MultiplyFloats<S, ElementF16<S>, 4>},
    {DType::kBF16, 2, MultiplyFloats<S, ElementBF16<S>, 1>, MultiplyFloats<S, ElementBF16<S>, 4>},
};

}  // namespace nonstop::cpu
