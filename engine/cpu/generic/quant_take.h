// Weights of one packed tile (8 rows x 32 columns, quant_layout.h) in registers: quants as the
// inner product of a vector target S wants them, scales and minima as f32.
#pragma once

#include <utility>

#include "cpu/generic/quant_layout.h"
#include "tensor/dequantize.h"

namespace nonstop::cpu {

// Four f16, sign-extended to 32 bits, as f32 times 2^-112: f32's exponent is that much larger.
// Infinity and NaN come out as finite values (FindNonFinite, tensor/finite.h, finds them at load).
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
FloatPair<S> LoadFloats8(const void* floats) {
  const auto* at = static_cast<const float*>(floats);
  return {{S::LoadF(at), S::LoadF(at + 4)}};
}

template <class S>
void StoreFloats8(float* to, const FloatPair<S>& pair) {
  S::StoreF(to, pair.half[0]);
  S::StoreF(to + 4, pair.half[1]);
}

// Of one tile, for each sub-block: what to multiply sums with.
template <class S, uint32_t kSubBlockCount>
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

// Steps of a tile: 4 columns for byte dots, 2 for 16-bit dots.
template <class S>
inline constexpr uint32_t kStepCount = S::kByteDot ? 8 : 16;

// Steps whose b-bit values share a vector.
template <class S>
constexpr uint32_t StepsPerVector(int bits) {
  return (S::kByteDot ? 8u : 16u) / static_cast<uint32_t>(bits);
}

// The b-bit values of step base + i, as lanes of 8 or 16 bits, moved to bit `target`. `i` is known
// when compiling; `base` may be not, if it is a multiple of StepsPerVector.
template <class S>
[[gnu::always_inline]] inline typename S::I TakeBits(const std::byte* plane, int bits,
                                                     uint32_t base, uint32_t i, uint32_t half,
                                                     int target) {
  const uint32_t steps_per_vector = StepsPerVector<S>(bits);
  auto v = S::LoadI(plane + (base / steps_per_vector * 2 + i / steps_per_vector * 2 + half) * 16);
  const int position = static_cast<int>(i % steps_per_vector) * bits;
  if (position > target) v = S::ShiftRight16(v, position - target);
  if (position < target) v = S::ShiftLeft16(v, target - position);
  if (!S::kByteDot && target == 0 && position + bits == 16) return v;
  const int lane_mask = ((1 << bits) - 1) << target;
  return S::And(v, S::Splat16(static_cast<uint16_t>(S::kByteDot ? lane_mask * 0x101 : lane_mask)));
}

// A tile's quants where they are packed.
template <class S, QuantLayout kLayout>
struct PackedQuants {
  using I = typename S::I;
  static constexpr uint32_t kSubBlockCount = kLayout.SubBlockCount();
  static constexpr bool kIsSigned = kLayout.is_signed;
  static constexpr uint32_t kLargest = kLayout.LargestQuant();
  static constexpr int32_t kOffset = kLayout.offset;
  // After so many steps the same instructions come again, further on in the planes.
  static constexpr uint32_t kRoundSteps = kLayout.high_bits != 0 ? kStepCount<S>
                                          : kLayout.is_signed && !S::kByteDot
                                              ? 2 * StepsPerVector<S>(2 * kLayout.low_bits)
                                              : StepsPerVector<S>(kLayout.low_bits);

  const std::byte* planes;

  // Rows 4 * half .. 4 * half + 3 of step base + i; base is a multiple of kRoundSteps.
  [[gnu::always_inline]] I Take(uint32_t base, uint32_t i, uint32_t half) const {
    if constexpr (kRoundSteps == kStepCount<S>) i += std::exchange(base, 0);
    if constexpr (kLayout.is_signed && S::kByteDot) {
      return TakeSigned(base, i, half);
    } else if constexpr (kLayout.is_signed) {
      const I bytes = TakeSigned(base / 2, i / 2, half);
      return i % 2 == 0 ? S::WidenLow8(bytes) : S::WidenHigh8(bytes);
    } else {
      const I low = TakeBits<S>(planes, kLayout.low_bits, base, i, half, 0);
      if constexpr (kLayout.high_bits == 0) {
        return low;
      } else {
        return S::Or(low, TakeBits<S>(planes + kLayout.PlaneSizeBytes(kLayout.low_bits),
                                      kLayout.high_bits, base, i, half, kLayout.low_bits));
      }
    }
  }
  int32_t offset() const { return kOffset; }

 private:
  // Sixteen signed bytes: byte vector base + i of the tile.
  [[gnu::always_inline]] I TakeSigned(uint32_t base, uint32_t i, uint32_t half) const {
    if constexpr (kLayout.is_look_up) {
      I nibbles = S::LoadI(planes + (base / 2 * 2 + i / 2 * 2 + half) * 16);
      if (i % 2 == 1) nibbles = S::ShiftRight16(nibbles, 4);
      return S::LookUp(S::LoadI(kIq4NlLevels), S::And(nibbles, S::Splat16(0x0f0f)));
    } else {
      return S::LoadI(planes + (base * 2 + i * 2 + half) * 16);
    }
  }
};

}  // namespace nonstop::cpu
