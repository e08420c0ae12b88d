// The product of one or more groups of 8 quantized rows (quant_layout.h) with 1 to 4 tokens' 8-bit
// activations. One source for every layout and vector target S.
//
// Sums of products are exact integers for 16 or 32 columns; a float accumulator for each row then
// adds scale_w * scale_x * sum, and minimum * scale_x * sum(q_x), in the order of the blocks. So a
// token's result is the same bits however many tokens or rows go together.
#pragma once

#include "cpu/generic/activations.h"
#include "cpu/generic/quant_layout.h"
#include "tensor/dequantize.h"

namespace nonstop::cpu {

// Writes y[t * y_stride + 8 * g + r] for `group_count` adjacent groups; x rows x_stride_bytes
// apart.
using QuantKernel = void (*)(const std::byte* groups, uint32_t group_count, uint32_t block_count,
                             const std::byte* x, size_t x_stride_bytes, float* y, size_t y_stride);

// Four f16, sign-extended to 32 bits, as f32 times 2^-112: f32's exponent is that much larger.
// Infinity and NaN come out as finite values (RowsAreFinite, matrix.h, finds them at load).
template <class S>
typename S::F SmallHalves(typename S::I widened_halves) {
  return S::FloatOf(
      S::And(S::ShiftLeft32(widened_halves, 13), S::Splat32(static_cast<int32_t>(0x8fffe000u))));
}

template <class S>
struct FloatPair {  // of rows 0..3 and 4..7
  typename S::F half[2];
};

template <class S>
FloatPair<S> LoadSmallHalves8(const std::byte* halves) {
  const auto v = S::LoadI(halves);
  return {{SmallHalves<S>(S::WidenLow16(v)), SmallHalves<S>(S::WidenHigh16(v))}};
}

template <class S>
FloatPair<S> LoadFloats8(const std::byte* floats) {
  return {{S::LoadF(floats), S::LoadF(floats + 16)}};
}

// Of one tile, for each sub-block: what to multiply sums with.
template <class S, int kSubBlockCount>
struct TileScales {
  FloatPair<S> scale[kSubBlockCount];
  FloatPair<S> minimum[kSubBlockCount];
};

// Eight bytes held as 16-bit lanes, times the rows' factors.
template <class S>
FloatPair<S> ScaleBytes(typename S::I widened, const FloatPair<S>& factor) {
  return {{S::Mul(S::FromInt(S::WidenLow16(widened)), factor.half[0]),
           S::Mul(S::FromInt(S::WidenHigh16(widened)), factor.half[1])}};
}

// f16 scales stay 2^112 too small and activations' are 2^56 too large (activations.h): the result
// is brought back with one multiplication instead of one for each block.
template <QuantLayout kLayout>
inline constexpr float kResultFactor =
    kLayout.HasSubBlocks() ? 1.0f / kActivationScaleFactor : 0x1p112f / kActivationScaleFactor;

template <class S, QuantLayout kLayout>
struct BlockHeader {
  FloatPair<S> scale;
  FloatPair<S> minimum;

  explicit BlockHeader(const std::byte* header) {
    if constexpr (kLayout.HasSubBlocks()) {
      scale = LoadFloats8<S>(header);
      if constexpr (kLayout.HasMinimum()) minimum = LoadFloats8<S>(header + 32);
    } else {
      scale = LoadSmallHalves8<S>(header);
      if constexpr (kLayout.HasMinimum()) minimum = LoadSmallHalves8<S>(header + 16);
    }
  }
};

template <class S, QuantLayout kLayout>
inline TileScales<S, kLayout.SubBlockCount()> LoadTileScales(const BlockHeader<S, kLayout>& header,
                                                             const std::byte* tile) {
  TileScales<S, kLayout.SubBlockCount()> scales;
  if constexpr (kLayout.scales == ScaleKind::kSub32Minimum) {  // at most 63: signed is unsigned
    const auto bytes = S::LoadI(tile);
    scales.scale[0] = ScaleBytes<S>(S::WidenLow8(bytes), header.scale);
    scales.minimum[0] = ScaleBytes<S>(S::WidenHigh8(bytes), header.minimum);
  } else if constexpr (kLayout.scales == ScaleKind::kSub16) {
    const auto bytes = S::LoadI(tile);
    scales.scale[0] = ScaleBytes<S>(S::WidenLow8(bytes), header.scale);
    scales.scale[1] = ScaleBytes<S>(S::WidenHigh8(bytes), header.scale);
  } else if constexpr (kLayout.scales == ScaleKind::kSub16Minimum) {
    const auto bytes = S::LoadI(tile), mask = S::Splat16(0x0f0f);
    const auto low = S::And(bytes, mask), high = S::And(S::ShiftRight16(bytes, 4), mask);
    scales.scale[0] = ScaleBytes<S>(S::WidenLow8(low), header.scale);
    scales.scale[1] = ScaleBytes<S>(S::WidenHigh8(low), header.scale);
    scales.minimum[0] = ScaleBytes<S>(S::WidenLow8(high), header.minimum);
    scales.minimum[1] = ScaleBytes<S>(S::WidenHigh8(high), header.minimum);
  } else {
    scales.scale[0] = header.scale;
    if constexpr (kLayout.HasMinimum()) scales.minimum[0] = header.minimum;
  }
  return scales;
}

// The b-bit values of `step`, as lanes of 8 or 16 bits, moved to bit `target`.
template <class S>
inline typename S::I TakeBits(const std::byte* plane, int bits, uint32_t step, uint32_t half,
                              int target) {
  const uint32_t steps_per_vector = (S::kByteDot ? 8u : 16u) / static_cast<uint32_t>(bits);
  auto v = S::LoadI(plane + (step / steps_per_vector * 2 + half) * 16);
  const int position = static_cast<int>(step % steps_per_vector) * bits;
  if (position > target) v = S::ShiftRight16(v, position - target);
  if (position < target) v = S::ShiftLeft16(v, target - position);
  if (!S::kByteDot && target == 0 && position + bits == 16) return v;
  const int lane_mask = ((1 << bits) - 1) << target;
  return S::And(v, S::Splat16(static_cast<uint16_t>(S::kByteDot ? lane_mask * 0x101 : lane_mask)));
}

// Unsigned quants of `step`, rows 4 * half .. 4 * half + 3.
template <class S, QuantLayout kLayout>
inline typename S::I TakeUnsigned(const std::byte* planes, uint32_t step, uint32_t half) {
  const auto low = TakeBits<S>(planes, kLayout.low_bits, step, half, 0);
  if constexpr (kLayout.high_bits == 0) {
    return low;
  } else {
    return S::Or(low, TakeBits<S>(planes + kLayout.PlaneSizeBytes(kLayout.low_bits),
                                  kLayout.high_bits, step, half, kLayout.low_bits));
  }
}

// Sixteen signed bytes: byte vector `index` of a tile (quant_layout.h).
template <class S, QuantLayout kLayout>
inline typename S::I TakeSigned(const std::byte* planes, uint32_t index, uint32_t half) {
  if constexpr (kLayout.is_look_up) {
    auto nibbles = S::LoadI(planes + (index / 2 * 2 + half) * 16);
    if (index % 2 == 1) nibbles = S::ShiftRight16(nibbles, 4);
    return S::LookUp(S::LoadI(kIq4NlLevels), S::And(nibbles, S::Splat16(0x0f0f)));
  } else {
    return S::LoadI(planes + (index * 2 + half) * 16);
  }
}

// Integer sums of one tile for each token, sub-block and half of the rows. A single token's sums
// are split in two chains of additions, which otherwise would wait for each other.
template <class S, QuantLayout kLayout, int kTokenCount>
struct TileSums {
  using I = typename S::I;
  using Block = ActivationBlock<S::kByteDot>;
  static constexpr int kSubBlockCount = kLayout.SubBlockCount();
  static constexpr uint32_t kChainCount = kTokenCount == 1 && kSubBlockCount == 1 ? 2 : 1;
  static constexpr bool kSubtractsLastChain = kChainCount == 2 && S::kByteDot && kLayout.is_signed;
  struct Chains {
    I chain[kChainCount][2];
  };
  Chains sums[kTokenCount][kSubBlockCount];

  I Total(int t, int sub, uint32_t half) const {
    const Chains& s = sums[t][sub];
    if constexpr (kChainCount == 1) return s.chain[0][half];
    const I last = s.chain[kChainCount - 1][half];
    if constexpr (kSubtractsLastChain) return S::Sub32(s.chain[0][half], last);
    return S::Add32(s.chain[0][half], last);
  }

  // Starts at -offset * sum(q_x), which takes the weights' offset out again.
  void Start(const Block* const* x) {
    for (int t = 0; t < kTokenCount; ++t) {
      for (int sub = 0; sub < kSubBlockCount; ++sub) {
        const int32_t total = kSubBlockCount == 2 ? x[t]->sums[sub] : x[t]->sums[0] + x[t]->sums[1];
        StartAt(-kLayout.offset * total, &sums[t][sub]);
      }
    }
  }

  static void StartAt(int32_t value, Chains* s) {
    for (uint32_t chain = 0; chain < kChainCount; ++chain) {
      s->chain[chain][0] = s->chain[chain][1] = S::Splat32(chain == 0 ? value : 0);
    }
  }

  // Bytes; unsigned quants are the operand in 0..127.
  void AddUnsignedBytes(const std::byte* planes, const Block* const* x) {
#pragma clang loop unroll(full)
    for (uint32_t step = 0; step < 8; ++step) {
      const I w0 = TakeUnsigned<S, kLayout>(planes, step, 0);
      const I w1 = TakeUnsigned<S, kLayout>(planes, step, 1);
#pragma clang loop unroll(full)
      for (int t = 0; t < kTokenCount; ++t) {
        I* s = sums[t][kSubBlockCount == 2 ? step / 4 : 0].chain[step % kChainCount];
        const I q = S::LoadSplat32(x[t]->q + 4 * step);
        s[0] = S::DotBytes(q, w0, s[0]);
        s[1] = S::DotBytes(q, w1, s[1]);
      }
    }
  }

  // Bytes; the operand in 0..127 is x, in two parts. With two chains the negative part has its own.
  // With one, -w = ~w + 1 turns its product into another addition: w * -n = ~w * n + n.
  void AddSignedBytes(const std::byte* planes, const Block* const* x) {
    for (int t = 0; t < kTokenCount; ++t) {
      StartAt(kSubtractsLastChain ? 0 : x[t]->negative_sum, &sums[t][0]);
    }
    const I flip = S::Splat32(kSubtractsLastChain ? 0 : -1);
#pragma clang loop unroll(full)
    for (uint32_t step = 0; step < 8; ++step) {
      const I w0 = TakeSigned<S, kLayout>(planes, step, 0);
      const I w1 = TakeSigned<S, kLayout>(planes, step, 1);
      const I v0 = S::Xor(w0, flip), v1 = S::Xor(w1, flip);
#pragma clang loop unroll(full)
      for (int t = 0; t < kTokenCount; ++t) {
        I* s = sums[t][0].chain[0];
        const I p = S::LoadSplat32(x[t]->positive + 4 * step);
        s[0] = S::DotBytes(w0, p, s[0]);
        s[1] = S::DotBytes(w1, p, s[1]);
        s = sums[t][0].chain[kChainCount - 1];
        const I n = S::LoadSplat32(x[t]->negative + 4 * step);
        s[0] = S::DotBytes(v0, n, s[0]);
        s[1] = S::DotBytes(v1, n, s[1]);
      }
    }
  }

  void AddHalves(I w0, I w1, uint32_t step, const Block* const* x) {
#pragma clang loop unroll(full)
    for (int t = 0; t < kTokenCount; ++t) {
      I* s = sums[t][kSubBlockCount == 2 ? step / 8 : 0].chain[step % kChainCount];
      const I q = S::LoadSplat32(x[t]->q + 2 * step);
      s[0] = S::DotHalves(w0, q, s[0]);
      s[1] = S::DotHalves(w1, q, s[1]);
    }
  }

  void Add(const std::byte* planes, const Block* const* x) {
    if constexpr (S::kByteDot && kLayout.is_signed) {
      AddSignedBytes(planes, x);
    } else if constexpr (S::kByteDot) {
      AddUnsignedBytes(planes, x);
    } else if constexpr (kLayout.is_signed) {
#pragma clang loop unroll(full)
      for (uint32_t index = 0; index < 8; ++index) {
        const I w0 = TakeSigned<S, kLayout>(planes, index, 0);
        const I w1 = TakeSigned<S, kLayout>(planes, index, 1);
        AddHalves(S::WidenLow8(w0), S::WidenLow8(w1), 2 * index, x);
        AddHalves(S::WidenHigh8(w0), S::WidenHigh8(w1), 2 * index + 1, x);
      }
    } else {
#pragma clang loop unroll(full)
      for (uint32_t step = 0; step < 16; ++step) {
        AddHalves(TakeUnsigned<S, kLayout>(planes, step, 0),
                  TakeUnsigned<S, kLayout>(planes, step, 1), step, x);
      }
    }
  }
};

// One group of rows; the accumulators of all tokens stay in registers.
template <class S, QuantLayout kLayout, int kTokenCount>
inline void MultiplyGroup(const std::byte* block, uint32_t block_count, const std::byte* x,
                          size_t x_stride_bytes, float* y, size_t y_stride) {
  using Block = ActivationBlock<S::kByteDot>;
  FloatPair<S> acc[kTokenCount];
  const Block* x_block[kTokenCount];
  for (int t = 0; t < kTokenCount; ++t) {
    acc[t] = {{S::SplatF(0), S::SplatF(0)}};
    x_block[t] = reinterpret_cast<const Block*>(x + static_cast<size_t>(t) * x_stride_bytes);
  }
  for (uint32_t b = 0; b < block_count; ++b, block += kLayout.BlockSizeBytes()) {
    const BlockHeader<S, kLayout> header(block);
    const std::byte* tile = block + kLayout.HeaderSizeBytes();
#pragma clang loop unroll(disable)
    for (uint32_t i = 0; i < kLayout.TileCount(); ++i, tile += kLayout.TileSizeBytes()) {
      TileSums<S, kLayout, kTokenCount> sums;
      sums.Start(x_block);
      sums.Add(tile + kLayout.TileScalesSizeBytes(), x_block);
      const auto scales = LoadTileScales<S, kLayout>(header, tile);
#pragma clang loop unroll(full)
      for (int t = 0; t < kTokenCount; ++t) {
        const auto x_scale = S::SplatF(x_block[t]->scale);
#pragma clang loop unroll(full)
        for (int sub = 0; sub < kLayout.SubBlockCount(); ++sub) {
#pragma clang loop unroll(full)
          for (uint32_t half = 0; half < 2; ++half) {
            auto& a = acc[t].half[half];
            const auto factor = S::Mul(scales.scale[sub].half[half], x_scale);
            a = S::Fma(S::FromInt(sums.Total(t, sub, half)), factor, a);
            if constexpr (kLayout.HasMinimum()) {
              const float x_sum =
                  kLayout.SubBlockCount() == 1
                      ? x_block[t]->scaled_sum
                      : x_block[t]->scale * static_cast<float>(x_block[t]->sums[sub]);
              a = S::Fma(scales.minimum[sub].half[half], S::SplatF(x_sum), a);
            }
          }
        }
        ++x_block[t];
      }
    }
  }
  for (int t = 0; t < kTokenCount; ++t) {
    const auto factor = S::SplatF(kResultFactor<kLayout>);
    S::StoreF(y + static_cast<size_t>(t) * y_stride, S::Mul(acc[t].half[0], factor));
    S::StoreF(y + static_cast<size_t>(t) * y_stride + 4, S::Mul(acc[t].half[1], factor));
  }
}

template <class S, QuantLayout kLayout, int kTokenCount>
void MultiplyGroups(const std::byte* groups, uint32_t group_count, uint32_t block_count,
                    const std::byte* x, size_t x_stride_bytes, float* y, size_t y_stride) {
  for (uint32_t g = 0; g < group_count; ++g) {
    MultiplyGroup<S, kLayout, kTokenCount>(groups, block_count, x, x_stride_bytes, y, y_stride);
    groups += size_t{block_count} * kLayout.BlockSizeBytes();
    y += kGroupRowCount;
  }
}

struct QuantKernels {
  DType dtype;
  QuantKernel tokens_1, tokens_4;
};

template <class S, QuantLayout kLayout>
inline constexpr QuantKernels kQuantKernelsOf = {kLayout.dtype, MultiplyGroups<S, kLayout, 1>,
                                                 MultiplyGroups<S, kLayout, 4>};

template <class S>
inline constexpr QuantKernels kQuantKernels[] = {
    kQuantKernelsOf<S, kQ4_0Layout>, kQuantKernelsOf<S, kQ4_1Layout>,
    kQuantKernelsOf<S, kQ5_0Layout>, kQuantKernelsOf<S, kQ5_1Layout>,
    kQuantKernelsOf<S, kQ8_0Layout>, kQuantKernelsOf<S, kIQ4_NLLayout>,
    kQuantKernelsOf<S, kQ2_KLayout>, kQuantKernelsOf<S, kQ3_KLayout>,
    kQuantKernelsOf<S, kQ4_KLayout>, kQuantKernelsOf<S, kQ5_KLayout>,
    kQuantKernelsOf<S, kQ6_KLayout>};

}  // namespace nonstop::cpu
