// The product with several tokens. A few groups of 8 rows are unpacked into tiles first: bytes (or
// 16-bit lanes) ready for the inner product, scales and minima as f32. All tokens then pass over
// them, two or four at a time. So unpacking is paid once for all tokens, and its formats meet only
// four kinds of inner loop.
#pragma once

#include "cpu/generic/quant_sums.h"

namespace nonstop::cpu {

enum class TileKind : uint8_t {
  kUnsigned4,  // up to 4 bits, one scale
  kUnsigned5,
  kSub16,   // up to 6 bits, two scales
  kSigned,  // signed bytes, one scale
};

// 16-bit dots need no distinction by bits or sign.
template <class S>
constexpr TileKind TileKindOf(const QuantLayout& layout) {
  if (layout.SubBlockCount() == 2) return TileKind::kSub16;
  if (!S::kByteDot) return TileKind::kUnsigned4;
  if (layout.is_signed) return TileKind::kSigned;
  return layout.high_bits == 0 ? TileKind::kUnsigned4 : TileKind::kUnsigned5;
}

template <class S, TileKind kKind>
struct Tile {
  static constexpr uint32_t kSubBlockCount = kKind == TileKind::kSub16 ? 2 : 1;
  float scale[kSubBlockCount][kGroupRowCount];
  float minimum[kSubBlockCount][kGroupRowCount];  // 0: none
  std::byte quants[kStepCount<S>][2][16];
};

// As PackedQuants, from an unpacked tile.
template <class S, TileKind kKind>
struct UnpackedQuants {
  static constexpr uint32_t kSubBlockCount = Tile<S, kKind>::kSubBlockCount;
  static constexpr bool kIsSigned = kKind == TileKind::kSigned;
  static constexpr uint32_t kRoundSteps = 1;
  static constexpr uint32_t kLargest = kKind == TileKind::kUnsigned4   ? 15
                                       : kKind == TileKind::kUnsigned5 ? 31
                                       : kKind == TileKind::kSub16     ? 63
                                                                       : 127;
  static constexpr int32_t kOffset = -1;  // known only when it runs

  const Tile<S, kKind>& tile;
  int32_t offset_value;

  [[gnu::always_inline]] typename S::I Take(uint32_t base, uint32_t i, uint32_t half) const {
    return S::LoadI(tile.quants[base + i][half]);
  }
  int32_t offset() const { return offset_value; }
};

// Unpacks `block_count` blocks of one group.
using UnpackKernel = void (*)(const std::byte* blocks, uint32_t block_count, std::byte* tiles);

template <class S, QuantLayout kLayout>
void UnpackTiles(const std::byte* block, uint32_t block_count, std::byte* tiles) {
  using OutTile = Tile<S, TileKindOf<S>(kLayout)>;
  auto* out = reinterpret_cast<OutTile*>(tiles);
  for (uint32_t b = 0; b < block_count; ++b, block += kLayout.BlockSizeBytes()) {
    const BlockHeader<S, kLayout> header(block);
    const std::byte* tile = block + kLayout.HeaderSizeBytes();
#pragma clang loop unroll(disable)
    for (uint32_t i = 0; i < kLayout.TileCount(); ++i, tile += kLayout.TileSizeBytes(), ++out) {
      const auto scales = LoadTileScales<S, kLayout>(header, tile);
      for (uint32_t sub = 0; sub < kLayout.SubBlockCount(); ++sub) {
        StoreFloats8<S>(out->scale[sub], scales.scale[sub]);
        FloatPair<S> minimum = {{S::SplatF(0), S::SplatF(0)}};
        if constexpr (kLayout.HasMinimum()) minimum = scales.minimum[sub];
        StoreFloats8<S>(out->minimum[sub], minimum);
      }
      const PackedQuants<S, kLayout> quants{tile + kLayout.TileScalesSizeBytes()};
#pragma clang loop unroll(disable)
      for (uint32_t base = 0; base < kStepCount<S>; base += quants.kRoundSteps) {
#pragma clang loop unroll(full)
        for (uint32_t step = 0; step < quants.kRoundSteps; ++step) {
          S::StoreI(out->quants[base + step][0], quants.Take(base, step, 0));
          S::StoreI(out->quants[base + step][1], quants.Take(base, step, 1));
        }
      }
    }
  }
}

// Sixteen bytes (4 rows x 4 columns) or eight 16-bit lanes (4 rows x 2 columns) as vectors of one
// column's 4 rows.
template <class S>
inline constexpr uint32_t kColumnsPerStep = S::kByteDot ? 4 : 2;

template <class S>
void StepToColumns(typename S::I quants, typename S::I offset,
                   typename S::F (&columns)[kColumnsPerStep<S>]) {
  if constexpr (S::kByteDot) {
    const auto low = S::WidenLow8(quants), high = S::WidenHigh8(quants);
    const typename S::I rows[4] = {S::WidenLow16(low), S::WidenHigh16(low), S::WidenLow16(high),
                                   S::WidenHigh16(high)};
#pragma clang loop unroll(full)
    for (uint32_t row = 0; row < 4; ++row) columns[row] = S::FromInt(S::Sub32(rows[row], offset));
    S::Transpose(columns);
  } else {
    const auto rows01 = S::FromInt(S::Sub32(S::WidenLow16(quants), offset));
    const auto rows23 = S::FromInt(S::Sub32(S::WidenHigh16(quants), offset));
    const auto even = S::ZipLow(rows01, rows23), odd = S::ZipHigh(rows01, rows23);
    columns[0] = S::ZipLow(even, odd);
    columns[1] = S::ZipHigh(even, odd);
  }
}

// out[8 * k + r] = the weight of row r at column k of a group's unpacked tiles of any kind.
template <class S>
void TilesToFloats(const std::byte* tile, uint32_t tile_count, uint32_t tile_size_bytes,
                   const QuantLayout& layout, float* out) {
  constexpr uint32_t kQuantsSizeBytes = kStepCount<S> * 2 * 16;
  const uint32_t sub_count = layout.SubBlockCount();
  const auto offset = S::Splat32(layout.offset);
  // f16 scales are 2^112 too small in a tile.
  const auto factor = S::SplatF(layout.HasSubBlocks() ? 1.0f : 0x1p112f);
  for (uint32_t i = 0; i < tile_count; ++i, tile += tile_size_bytes) {
    const auto* scales = reinterpret_cast<const float*>(tile);
    const auto* minima = scales + size_t{sub_count} * kGroupRowCount;
    const std::byte* quants = tile + tile_size_bytes - kQuantsSizeBytes;
    for (uint32_t step = 0; step < kStepCount<S>; ++step) {
      const uint32_t sub = step * sub_count / kStepCount<S> * kGroupRowCount;
      for (uint32_t half = 0; half < 2; ++half, quants += 16) {
        typename S::F columns[kColumnsPerStep<S>];
        StepToColumns<S>(S::LoadI(quants), offset, columns);
        const auto scale = S::Mul(S::LoadF(scales + sub + half * 4), factor);
        const auto minimum = S::Mul(S::LoadF(minima + sub + half * 4), factor);
#pragma clang loop unroll(full)
        for (uint32_t k = 0; k < kColumnsPerStep<S>; ++k) {
          S::StoreF(out + k * kGroupRowCount + half * 4,
                    S::Add(S::Mul(columns[k], scale), minimum));
        }
      }
      out += kColumnsPerStep<S> * kGroupRowCount;
    }
  }
}

// What a product of unpacked tiles needs besides x and y.
struct TileProduct {
  const std::byte* tiles;  // (group_count, tile_count)
  uint32_t group_count;
  uint32_t tile_count;  // of a group: a range of its columns
  int32_t offset;       // of the quants
  bool continues;       // adds to y, which holds the columns before
  float factor;         // for the result; 1 before the last range of columns
};

// y[t * y_stride + 8 * g + r]; x rows x_stride_bytes apart, from the range's first column on.
using TileKernel = void (*)(const TileProduct& product, const std::byte* x, size_t x_stride_bytes,
                            float* y, size_t y_stride);

template <class S, TileKind kKind, int kTokenCount>
void MultiplyTiles(const TileProduct& product, const std::byte* x, size_t x_stride_bytes, float* y,
                   size_t y_stride) {
  using Quants = UnpackedQuants<S, kKind>;
  using Block = ActivationBlock<S::kByteDot>;
  const auto* tile = reinterpret_cast<const Tile<S, kKind>*>(product.tiles);
  for (uint32_t g = 0; g < product.group_count; ++g, y += kGroupRowCount) {
    FloatPair<S> acc[kTokenCount];
    const Block* x_block[kTokenCount];
    for (int t = 0; t < kTokenCount; ++t) {
      acc[t] = {{S::SplatF(0), S::SplatF(0)}};
      if (product.continues) acc[t] = LoadFloats8<S>(y + static_cast<size_t>(t) * y_stride);
      x_block[t] = reinterpret_cast<const Block*>(x + static_cast<size_t>(t) * x_stride_bytes);
    }
    for (uint32_t i = 0; i < product.tile_count; ++i, ++tile) {
      const Quants quants{*tile, product.offset};
      TileSums<S, Quants, kTokenCount> sums;
      sums.Start(quants, x_block);
      sums.Add(quants, x_block);
      TileScales<S, Quants::kSubBlockCount> scales;
      for (uint32_t sub = 0; sub < Quants::kSubBlockCount; ++sub) {
        scales.scale[sub] = LoadFloats8<S>(tile->scale[sub]);
        scales.minimum[sub] = LoadFloats8<S>(tile->minimum[sub]);
      }
      AddScaled<S, Quants, kTokenCount, true>(sums, scales, x_block, acc);
      for (int t = 0; t < kTokenCount; ++t) ++x_block[t];
    }
    const auto factor = S::SplatF(product.factor);
    for (int t = 0; t < kTokenCount; ++t) {
      StoreFloats8<S>(y + static_cast<size_t>(t) * y_stride,
                      {{S::Mul(acc[t].half[0], factor), S::Mul(acc[t].half[1], factor)}});
    }
  }
}

}  // namespace nonstop::cpu
