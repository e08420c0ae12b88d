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

// Writes y[t * y_stride + 8 * g + r] for `group_count` adjacent groups; x rows x_stride_bytes apart.
using QuantKernel = void (*)(const std::byte* groups, uint32_t group_count, uint32_t block_count,
                             const std::byte* x, size_t x_stride_bytes, float* y, size_t y_stride);

// Four f16 of the low or high half of `halves` as f32. Infinity and NaN come out as finite values
// (RowsAreFinite, matrix.h, finds them when a model is loaded).
template <class S>
typename S::F HalvesToFloat(typename S::I widened_halves) {
  const auto bits = S::And(S::ShiftLeft32(widened_halves, 13),
                           S::Splat32(static_cast<int32_t>(0x8fffe000u)));
  return S::Mul(S::FloatOf(bits), S::SplatF(0x1p112f));
}

template <class S>
struct FloatPair {  // of rows 0..3 and 4..7
  typename S::F half[2];
};

template <class S>
FloatPair<S> LoadHalves8(const std::byte* halves) {
  const auto v = S::LoadI(halves);
  return {{HalvesToFloat<S>(S::WidenLow16(v)), HalvesToFloat<S>(S::WidenHigh16(v))}};
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

template <class S, QuantLayout kLayout>
struct BlockHeader {
  FloatPair<S> scale;
  FloatPair<S> minimum;

  explicit BlockHeader(const std::byte* header) {
    if constexpr (kLayout.HasSubBlocks()) {
      scale = LoadFloats8<S>(header);
      if constexpr (kLayout.HasMinimum()) minimum = LoadFloats8<S>(header + 32);
    } else {
      scale = LoadHalves8<S>(header);
      if constexpr (kLayout.HasMinimum()) minimum = LoadHalves8<S>(header + 16);
    }
  }
};

template <class S, QuantLayout kLayout>
inline TileScales<S, kLayout.SubBlockCount()> LoadTileScales(
    const BlockHeader<S, kLayout>& header, const std::byte* tile) {
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
inline typename S::I TakeBits(const std::byte* plane, int bits, int step, int half, int target) {
  const int lane_bits = S::kByteDot ? 8 : 16;
  const int steps_per_vector = lane_bits / bits;
  auto v = S::LoadI(plane + (step / steps_per_vector * 2 + half) * 16);
  const int position = step % steps_per_vector * bits;
  if (position > target) v = S::ShiftRight16(v, position - target);
  if (position < target) v = S::ShiftLeft16(v, target - position);
  if (!S::kByteDot && target == 0 && position + bits == 16) return v;
  const int lane_mask = ((1 << bits) - 1) << target;
  return S::And(v, S::Splat16(static_cast<uint16_t>(S::kByteDot ? lane_mask * 0x101 : lane_mask)));
}

// Unsigned quants of `step`, rows 4 * half .. 4 * half + 3.
template <class S, QuantLayout kLayout>
inline typename S::I TakeUnsigned(const std::byte* planes, int step, int half) {
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
inline typename S::I TakeSigned(const std::byte* planes, int index, int half) {
  if constexpr (kLayout.is_look_up) {
    auto nibbles = S::LoadI(planes + (index / 2 * 2 + half) * 16);
    if (index % 2 == 1) nibbles = S::ShiftRight16(nibbles, 4);
    return S::LookUp(S::LoadI(kIq4NlLevels), S::And(nibbles, S::Splat16(0x0f0f)));
  } else {
    return S::LoadI(planes + (index * 2 + half) * 16);
  }
}

// Integer sums of one tile for each token, sub-block and half of the rows.
template <class S, QuantLayout kLayout, int kTokenCount>
struct TileSums {
  using Block = ActivationBlock<S::kByteDot>;
  static constexpr int kSubBlockCount = kLayout.SubBlockCount();
  typename S::I sum[kTokenCount][kSubBlockCount][2];

  // Starts at -offset * sum(q_x), which takes the weights' offset out again.
  void Start(const Block* const* x) {
    for (int t = 0; t < kTokenCount; ++t) {
      for (int sub = 0; sub < kSubBlockCount; ++sub) {
        const int32_t total =
            kSubBlockCount == 2 ? x[t]->sums[sub] : x[t]->sums[0] + x[t]->sums[1];
        sum[t][sub][0] = sum[t][sub][1] = S::Splat32(-kLayout.offset * total);
      }
    }
  }

  // Bytes; unsigned quants are the operand in 0..127.
  void AddUnsignedBytes(const std::byte* planes, const Block* const* x) {
#pragma clang loop unroll(full)
    for (int step = 0; step < 8; ++step) {
      const int sub = kSubBlockCount == 2 ? step / 4 : 0;
      const auto w0 = TakeUnsigned<S, kLayout>(planes, step, 0);
      const auto w1 = TakeUnsigned<S, kLayout>(planes, step, 1);
#pragma clang loop unroll(full)
      for (int t = 0; t < kTokenCount; ++t) {
        const auto q = S::LoadSplat32(x[t]->q + 4 * step);
        sum[t][sub][0] = S::DotBytes(q, w0, sum[t][sub][0]);
        sum[t][sub][1] = S::DotBytes(q, w1, sum[t][sub][1]);
      }
    }
  }

  // Bytes; the operand in 0..127 is x, in two parts. -w = ~w + 1 turns the negative part's product
  // into another addition: w * -n = ~w * n + n.
  void AddSignedBytes(const std::byte* planes, const Block* const* x) {
    for (int t = 0; t < kTokenCount; ++t) {
      sum[t][0][0] = sum[t][0][1] = S::Splat32(x[t]->negative_sum);
    }
#pragma clang loop unroll(full)
    for (int step = 0; step < 8; ++step) {
      const auto w0 = TakeSigned<S, kLayout>(planes, step, 0);
      const auto w1 = TakeSigned<S, kLayout>(planes, step, 1);
      const auto v0 = S::Xor(w0, S::Splat32(-1)), v1 = S::Xor(w1, S::Splat32(-1));
#pragma clang loop unroll(full)
      for (int t = 0; t < kTokenCount; ++t) {
        const auto p = S::LoadSplat32(x[t]->positive + 4 * step);
        const auto n = S::LoadSplat32(x[t]->negative + 4 * step);
        sum[t][0][0] = S::DotBytes(v0, n, S::DotBytes(w0, p, sum[t][0][0]));
        sum[t][0][1] = S::DotBytes(v1, n, S::DotBytes(w1, p, sum[t][0][1]));
      }
    }
  }

  void AddHalves(typename S::I w0, typename S::I w1, int step, const Block* const* x) {
    const int sub = kSubBlockCount == 2 ? step / 8 : 0;
#pragma clang loop unroll(full)
    for (int t = 0; t < kTokenCount; ++t) {
      const auto q = S::LoadSplat32(x[t]->q + 2 * step);
      sum[t][sub][0] = S::DotHalves(w0, q, sum[t][sub][0]);
      sum[t][sub][1] = S::DotHalves(w1, q, sum[t][sub][1]);
    }
  }

  void Add(const std::byte* planes, const Block* const* x) {
    if constexpr (S::kByteDot && kLayout.is_signed) {
      AddSignedBytes(planes, x);
    } else if constexpr (S::kByteDot) {
      AddUnsignedBytes(planes, x);
    } else if constexpr (kLayout.is_signed) {
#pragma clang loop unroll(full)
      for (int index = 0; index < 8; ++index) {
        const auto w0 = TakeSigned<S, kLayout>(planes, index, 0);
        const auto w1 = TakeSigned<S, kLayout>(planes, index, 1);
        AddHalves(S::WidenLow8(w0), S::WidenLow8(w1), 2 * index, x);
        AddHalves(S::WidenHigh8(w0), S::WidenHigh8(w1), 2 * index + 1, x);
      }
    } else {
#pragma clang loop unroll(full)
      for (int step = 0; step < 16; ++step) {
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
          for (int half = 0; half < 2; ++half) {
            auto& a = acc[t].half[half];
            const auto factor = S::Mul(scales.scale[sub].half[half], x_scale);
            a = S::Fma(S::FromInt(sums.sum[t][sub][half]), factor, a);
            if constexpr (kLayout.HasMinimum()) {
              const float x_sum = kLayout.SubBlockCount() == 1
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
    S::StoreF(y + static_cast<size_t>(t) * y_stride, acc[t].half[0]);
    S::StoreF(y + static_cast<size_t>(t) * y_stride + 4, acc[t].half[1]);
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
  QuantKernel tokens_1, tokens_2, tokens_4;
};

template <class S, QuantLayout kLayout>
inline constexpr QuantKernels kQuantKernelsOf = {kLayout.dtype, MultiplyGroups<S, kLayout, 1>,
                                                 MultiplyGroups<S, kLayout, 2>,
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
