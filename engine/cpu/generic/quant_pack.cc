// See quant_pack.h. A raw block is first taken apart into its scales and plain quants (RawBlock),
// in one function for each family of types; what follows is the same for all of them.
#include "cpu/generic/quant_pack.h"

#include <algorithm>
#include <cstring>

#include "base/bytes.h"
#include "base/check.h"
#include "base/half.h"
#include "tensor/dequantize.h"

namespace nonstop::cpu {
namespace {

constexpr const QuantLayout* kLayouts[] = {&kQ4_0Layout, &kQ4_1Layout,   &kQ5_0Layout, &kQ5_1Layout,
                                           &kQ8_0Layout, &kIQ4_NLLayout, &kQ2_KLayout, &kQ3_KLayout,
                                           &kQ4_KLayout, &kQ5_KLayout,   &kQ6_KLayout};

struct RawBlock {
  uint16_t scale;             // f16 bits
  uint16_t minimum;           // f16 bits
  uint8_t tile_scales[8][2];  // as the tile keeps them (quant_layout.h), for one row
  uint8_t q[256];
};

// Q4_0, Q4_1, Q5_0, Q5_1, IQ4_NL: d, [m], [32 high bits], nibbles; Q8_0: d, bytes.
void TakeApartBlock32(const QuantLayout& layout, const uint8_t* block, RawBlock* out) {
  out->scale = LoadLe<uint16_t>(block);
  block += 2;
  if (layout.HasMinimum()) {
    out->minimum = LoadLe<uint16_t>(block);
    block += 2;
  }
  if (layout.low_bits == 8) {
    std::memcpy(out->q, block, 32);
    return;
  }
  uint32_t high = 0;
  if (layout.high_bits == 1) {
    high = LoadLe<uint32_t>(block);
    block += 4;
  }
  for (uint32_t i = 0; i < 16; ++i) {
    out->q[i] = static_cast<uint8_t>((block[i] & 15) | (high >> i & 1) << 4);
    out->q[i + 16] = static_cast<uint8_t>(block[i] >> 4 | (high >> (i + 16) & 1) << 4);
  }
}

// Q4_K, Q5_K: d, dmin, 12 bytes of scales, [32 bytes of high bits], nibbles.
void TakeApartQ45K(const QuantLayout& layout, const uint8_t* block, RawBlock* out) {
  out->scale = LoadLe<uint16_t>(block);
  out->minimum = LoadLe<uint16_t>(block + 2);
  const uint8_t* high = block + 16;
  const uint8_t* nibbles = block + 16 + 32 * layout.high_bits;
  for (uint32_t sub_block = 0; sub_block < 8; ++sub_block) {
    const KScaleMin scales = UnpackQ4KScaleMin(block + 4, sub_block);
    out->tile_scales[sub_block][0] = scales.scale;
    out->tile_scales[sub_block][1] = scales.minimum;
    for (uint32_t i = 0; i < 32; ++i) {
      const int nibble = nibbles[sub_block / 2 * 32 + i] >> (sub_block % 2 * 4) & 15;
      const int bit = layout.high_bits == 0 ? 0 : high[i] >> sub_block & 1;
      out->q[sub_block * 32 + i] = static_cast<uint8_t>(nibble | bit << 4);
    }
  }
}

// 128 bytes of nibbles, 64 of 2-bit high parts, 16 signed scales, d; in halves of 128 weights.
void TakeApartQ6K(const uint8_t* block, RawBlock* out) {
  out->scale = LoadLe<uint16_t>(block + 208);
  std::memcpy(out->tile_scales, block + 192, 16);
  for (uint32_t i = 0; i < 256; ++i) {
    const uint32_t half = i / 128, in_half = i % 128;
    const int nibble = block[half * 64 + in_half % 64] >> (in_half / 64 * 4) & 15;
    const int high = block[128 + half * 32 + in_half % 32] >> (in_half / 32 * 2) & 3;
    out->q[i] = static_cast<uint8_t>(nibble | high << 4);
  }
}

// Q2_K: 16 bytes of scale and minimum, 64 bytes of 2-bit weights, d, dmin.
void TakeApartQ2K(const uint8_t* block, RawBlock* out) {
  out->scale = LoadLe<uint16_t>(block + 80);
  out->minimum = LoadLe<uint16_t>(block + 82);
  std::memcpy(out->tile_scales, block, 16);
  for (uint32_t i = 0; i < 256; ++i) {
    out->q[i] = block[16 + i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2) & 3;
  }
}

// Q3_K: 32 bytes of high bits, 64 bytes of 2-bit weights, 12 bytes of scales, d.
void TakeApartQ3K(const uint8_t* block, RawBlock* out) {
  out->scale = LoadLe<uint16_t>(block + 108);
  for (uint32_t i = 0; i < 16; ++i) {
    out->tile_scales[i / 2][i % 2] = static_cast<uint8_t>(UnpackQ3KScale(block + 96, i));
  }
  for (uint32_t i = 0; i < 256; ++i) {
    const int two = block[32 + i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2) & 3;
    out->q[i] = static_cast<uint8_t>(two | (block[i % 32] >> (i / 32) & 1) << 2);
  }
}

void TakeApart(const QuantLayout& layout, const uint8_t* block, RawBlock* out) {
  switch (layout.dtype) {
    case DType::kQ2_K:
      return TakeApartQ2K(block, out);
    case DType::kQ3_K:
      return TakeApartQ3K(block, out);
    case DType::kQ4_K:
    case DType::kQ5_K:
      return TakeApartQ45K(layout, block, out);
    case DType::kQ6_K:
      return TakeApartQ6K(block, out);
    default:
      return TakeApartBlock32(layout, block, out);
  }
}

void PutHeader(const QuantLayout& layout, const RawBlock& raw, uint32_t row, std::byte* header) {
  if (layout.HasSubBlocks()) {
    StoreLe(header + row * 4, HalfToFloat(raw.scale));
    if (layout.HasMinimum()) StoreLe(header + 32 + row * 4, -HalfToFloat(raw.minimum));
  } else {
    StoreLe(header + row * 2, raw.scale);
    if (layout.HasMinimum()) StoreLe(header + 16 + row * 2, raw.minimum);
  }
}

// Where row 0's columns lie in a plane; row r's are RowOffset(r) bytes further on.
struct PlaneMap {
  uint16_t byte[kTileColumnCount];
  uint8_t shift[kTileColumnCount];

  template <bool kByteDot>
  void Fill(const QuantLayout& layout, int bits) {
    for (uint32_t column = 0; column < kTileColumnCount; ++column) {
      const BitPlace place = PlaceInPlane<kByteDot>(layout, bits, 0, column);
      byte[column] = static_cast<uint16_t>(place.byte);
      shift[column] = static_cast<uint8_t>(place.shift);
    }
  }
};

template <bool kByteDot>
constexpr uint32_t RowOffset(const QuantLayout& layout, uint32_t row) {
  const bool has_byte_lanes = kByteDot || !layout.is_signed;  // 4 bytes a row, else 2
  return row / 4 * 16 + row % 4 * (has_byte_lanes ? 4 : 2);
}

// The plane is zero where nothing has been put yet.
void PutBits(const PlaneMap& map, const uint8_t* q, int right_shift, int mask, uint8_t* plane) {
  for (uint32_t column = 0; column < kTileColumnCount; ++column) {
    const int bits = q[column] >> right_shift & mask;
    plane[map.byte[column]] |= static_cast<uint8_t>(bits << map.shift[column]);
  }
}

template <bool kByteDot>
int TakeQuant(const QuantLayout& layout, const uint8_t* planes, uint32_t row, uint32_t column) {
  const BitPlace low = PlaceInPlane<kByteDot>(layout, layout.low_bits, row, column);
  int q = planes[low.byte] >> low.shift & ((1 << layout.low_bits) - 1);
  if (layout.high_bits != 0) {
    const BitPlace high = PlaceInPlane<kByteDot>(layout, layout.high_bits, row, column);
    planes += layout.PlaneSizeBytes(layout.low_bits);
    const int high_mask = (1 << layout.high_bits) - 1;
    q |= (planes[high.byte] >> high.shift & high_mask) << layout.low_bits;
  }
  if (layout.is_look_up) return kIq4NlLevels[q];
  return layout.is_signed ? static_cast<int8_t>(q) : q - layout.offset;
}

struct ScaleAndMinimum {
  float scale;
  float minimum;
};

// Of `row`, in half `half` of a tile.
ScaleAndMinimum TakeScales(const QuantLayout& layout, const std::byte* header,
                           const std::byte* tile_scales, uint32_t row, uint32_t half) {
  if (!layout.HasSubBlocks()) {
    return {HalfToFloat(LoadLe<uint16_t>(header + row * 2)),
            layout.HasMinimum() ? HalfToFloat(LoadLe<uint16_t>(header + 16 + row * 2)) : 0.0f};
  }
  const float scale = LoadLe<float>(header + row * 4);
  const float minimum = layout.HasMinimum() ? LoadLe<float>(header + 32 + row * 4) : 0.0f;
  const auto* bytes = reinterpret_cast<const uint8_t*>(tile_scales);
  const uint8_t byte = bytes[half * 8 + row];
  switch (layout.scales) {
    case ScaleKind::kSub32Minimum:
      return {scale * static_cast<float>(bytes[row]), minimum * static_cast<float>(bytes[8 + row])};
    case ScaleKind::kSub16:
      return {scale * static_cast<float>(static_cast<int8_t>(byte)), 0.0f};
    default:
      return {scale * static_cast<float>(byte & 15), minimum * static_cast<float>(byte >> 4)};
  }
}

}  // namespace

const QuantLayout* FindQuantLayout(DType dtype) {
  for (const QuantLayout* layout : kLayouts) {
    if (layout->dtype == dtype) return layout;
  }
  return nullptr;
}

template <bool kByteDot>
void PackGroup(const QuantLayout& layout, const std::byte* raw_rows, uint32_t row_count,
               uint32_t column_count, std::byte* group) {
  CHECK(row_count <= kGroupRowCount);
  const uint32_t block_count = column_count / layout.BlockLength();
  const uint32_t raw_block_size_bytes = GetDType(layout.dtype).block_size_bytes;
  const auto* raw = reinterpret_cast<const uint8_t*>(raw_rows);
  std::memset(group, 0, size_t{block_count} * layout.BlockSizeBytes());
  PlaneMap low, high;
  low.Fill<kByteDot>(layout, layout.low_bits);
  if (layout.high_bits != 0) high.Fill<kByteDot>(layout, layout.high_bits);
  RawBlock block = {};
  for (uint32_t row = 0; row < row_count; ++row) {
    const uint32_t row_offset = RowOffset<kByteDot>(layout, row);
    std::byte* header = group;
    for (uint32_t i = 0; i < block_count; ++i, raw += raw_block_size_bytes) {
      TakeApart(layout, raw, &block);
      PutHeader(layout, block, row, header);
      auto* tile = reinterpret_cast<uint8_t*>(header) + layout.HeaderSizeBytes();
      for (uint32_t t = 0; t < layout.TileCount(); ++t, tile += layout.TileSizeBytes()) {
        if (layout.HasSubBlocks()) {
          tile[row] = block.tile_scales[t][0];
          tile[8 + row] = block.tile_scales[t][1];
        }
        const uint8_t* q = block.q + t * kTileColumnCount;
        uint8_t* plane = tile + layout.TileScalesSizeBytes() + row_offset;
        PutBits(low, q, 0, (1 << layout.low_bits) - 1, plane);
        if (layout.high_bits == 0) continue;
        plane += layout.PlaneSizeBytes(layout.low_bits);
        PutBits(high, q, layout.low_bits, (1 << layout.high_bits) - 1, plane);
      }
      header += layout.BlockSizeBytes();
    }
  }
}

template <bool kByteDot>
void UnpackGroupRow(const QuantLayout& layout, const std::byte* group, uint32_t row, uint32_t begin,
                    uint32_t count, float* out) {
  DCHECK(row < kGroupRowCount && begin % layout.BlockLength() == 0);
  const std::byte* header = group + size_t{begin} / layout.BlockLength() * layout.BlockSizeBytes();
  for (uint32_t done = 0; done < count; header += layout.BlockSizeBytes()) {
    const std::byte* tile = header + layout.HeaderSizeBytes();
    for (uint32_t t = 0; t < layout.TileCount(); ++t, tile += layout.TileSizeBytes()) {
      const auto* planes = reinterpret_cast<const uint8_t*>(tile) + layout.TileScalesSizeBytes();
      for (uint32_t half = 0; half < 2; ++half) {
        const ScaleAndMinimum scales = TakeScales(layout, header, tile, row, half);
        for (uint32_t i = 0; i < 16; ++i, ++done) {
          const auto q =
              static_cast<float>(TakeQuant<kByteDot>(layout, planes, row, half * 16 + i));
          out[done] = layout.HasMinimum() ? q * scales.scale + scales.minimum : q * scales.scale;
        }
      }
    }
  }
}

template void PackGroup<true>(const QuantLayout&, const std::byte*, uint32_t, uint32_t, std::byte*);
template void PackGroup<false>(const QuantLayout&, const std::byte*, uint32_t, uint32_t,
                               std::byte*);
template void UnpackGroupRow<true>(const QuantLayout&, const std::byte*, uint32_t, uint32_t,
                                   uint32_t, float*);
template void UnpackGroupRow<false>(const QuantLayout&, const std::byte*, uint32_t, uint32_t,
                                    uint32_t, float*);

}  // namespace nonstop::cpu
