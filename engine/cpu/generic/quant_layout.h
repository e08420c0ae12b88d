// How quantized weights lie in a kInterleaved8 matrix, for both inner products.
//
// Group: 8 rows, whole. Block: 8 rows x the type's block length (32 or 256 columns): a header with
// the block's scales, then one tile for every 32 columns. Tile: 8 rows x 32 columns: sub-block
// scales (K types), then the quants as bit planes: low bits, then high bits. Plane of b bits: 2 b
// vectors of 16 bytes; vector 2 v + h belongs to rows 4 h .. 4 h + 3. A lane is 8 bits wide (byte
// dots: a row's 4 neighbouring columns are one 32-bit lane) or 16 bits (16-bit dots: 2 columns),
// and holds the b bits of 8 / b or 16 / b consecutive steps; a step is 4 or 2 columns. Signed bytes
// with 16-bit dots: a vector's 8 low bytes are one step, its high bytes the next. IQ4_NL stores the
// nibbles that, looked up, give such byte vectors.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace nonstop::cpu {

inline constexpr uint32_t kGroupRowCount = 8;
inline constexpr uint32_t kTileColumnCount = 32;

enum class ScaleKind : uint8_t {
  kBlock,         // d: header f16[8]
  kBlockMinimum,  // d, m: header f16[8] twice
  kSub32Minimum,  // header f32 d[8], -dmin[8] (f32: f16 of such sizes are often subnormal and
                  // slow); tile u8 scale[8], minimum[8]
  kSub16,         // header f32 d[8]; tile i8 scale[2][8], one for each 16 columns
  kSub16Minimum,  // header f32 d[8], -dmin[8]; tile u8 [2][8]: scale, minimum << 4
};

struct QuantLayout {
  DType dtype;
  int low_bits;
  int high_bits;
  int offset;      // weight = scale * (q - offset) [+ minimum]
  bool is_signed;  // q is a signed byte (after the look-up)
  bool is_look_up;
  ScaleKind scales;
  bool is_common = true;  // what published files mostly hold

  constexpr bool HasSubBlocks() const {
    return scales != ScaleKind::kBlock && scales != ScaleKind::kBlockMinimum;
  }
  constexpr bool HasMinimum() const {
    return scales != ScaleKind::kBlock && scales != ScaleKind::kSub16;
  }
  constexpr uint32_t LargestQuant() const { return (1u << (low_bits + high_bits)) - 1; }
  constexpr uint32_t BlockLength() const { return HasSubBlocks() ? 256 : 32; }
  constexpr uint32_t TileCount() const { return BlockLength() / kTileColumnCount; }
  // Scales, and so integer sums, of a tile: one, or one for each half.
  constexpr uint32_t SubBlockCount() const {
    return scales == ScaleKind::kSub16 || scales == ScaleKind::kSub16Minimum ? 2 : 1;
  }
  constexpr uint32_t HeaderSizeBytes() const {
    const uint32_t scale_size_bytes = HasSubBlocks() ? 4 : 2;
    return kGroupRowCount * scale_size_bytes * (HasMinimum() ? 2 : 1);
  }
  constexpr uint32_t TileScalesSizeBytes() const { return HasSubBlocks() ? 16 : 0; }
  constexpr uint32_t PlaneSizeBytes(int bits) const { return 32 * static_cast<uint32_t>(bits); }
  constexpr uint32_t TileSizeBytes() const {
    return TileScalesSizeBytes() + PlaneSizeBytes(low_bits) + PlaneSizeBytes(high_bits);
  }
  constexpr uint32_t BlockSizeBytes() const {
    return HeaderSizeBytes() + TileCount() * TileSizeBytes();
  }
};

//                                          dtype     low high offset signed look-up scales
inline constexpr QuantLayout kQ4_0Layout = {DType::kQ4_0, 4, 0, 8, false, false, ScaleKind::kBlock};
inline constexpr QuantLayout kQ4_1Layout = {
    DType::kQ4_1, 4, 0, 0, false, false, ScaleKind::kBlockMinimum};
inline constexpr QuantLayout kQ5_0Layout = {DType::kQ5_0,     4, 1, 16, false, false,
                                            ScaleKind::kBlock};
inline constexpr QuantLayout kQ5_1Layout = {
    DType::kQ5_1, 4, 1, 0, false, false, ScaleKind::kBlockMinimum, false};
inline constexpr QuantLayout kQ8_0Layout = {DType::kQ8_0, 8, 0, 0, true, false, ScaleKind::kBlock};
inline constexpr QuantLayout kIQ4_NLLayout = {DType::kIQ4_NL,    4,    0, 0, true, true,
                                              ScaleKind::kBlock, false};
inline constexpr QuantLayout kQ2_KLayout = {
    DType::kQ2_K, 2, 0, 0, false, false, ScaleKind::kSub16Minimum, false};
inline constexpr QuantLayout kQ3_KLayout = {DType::kQ3_K,      2,    1, 4, false, false,
                                            ScaleKind::kSub16, false};
inline constexpr QuantLayout kQ4_KLayout = {
    DType::kQ4_K, 4, 0, 0, false, false, ScaleKind::kSub32Minimum};
inline constexpr QuantLayout kQ5_KLayout = {
    DType::kQ5_K, 4, 1, 0, false, false, ScaleKind::kSub32Minimum};
inline constexpr QuantLayout kQ6_KLayout = {DType::kQ6_K,     4, 2, 32, false, false,
                                            ScaleKind::kSub16};

// Bit `shift` of byte `byte` of a plane is the lowest bit of an element.
struct BitPlace {
  uint32_t byte;
  uint32_t shift;
};

// Where column `column` of row `row` of a tile lies in a plane of `bits` bits.
template <bool kByteDot>
constexpr BitPlace PlaceInPlane(const QuantLayout& layout, int bits, uint32_t row,
                                uint32_t column) {
  const auto width = static_cast<uint32_t>(bits);
  const uint32_t half = row / 4;
  if constexpr (kByteDot) {
    const uint32_t step = column / 4, steps_per_vector = 8 / width;
    const uint32_t vector = step / steps_per_vector * 2 + half;
    return {vector * 16 + row % 4 * 4 + column % 4, width * (step % steps_per_vector)};
  } else {
    const uint32_t step = column / 2, lane = row % 4 * 2 + column % 2;
    if (layout.is_signed) {  // byte vectors of two steps; looked-up ones are nibbles of two of them
      const uint32_t byte_vector = step / 2, byte = step % 2 * 8 + lane;
      const uint32_t vectors_per_vector = 8 / width;
      return {(byte_vector / vectors_per_vector * 2 + half) * 16 + byte,
              width * (byte_vector % vectors_per_vector)};
    }
    const uint32_t steps_per_vector = 16 / width;
    const uint32_t shift = width * (step % steps_per_vector);
    return {(step / steps_per_vector * 2 + half) * 16 + lane * 2 + shift / 8, shift % 8};
  }
}

}  // namespace nonstop::cpu
