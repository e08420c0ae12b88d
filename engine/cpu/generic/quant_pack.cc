// See quant_pack.h. Quants move in words: 4 neighbouring columns' bits, a byte each, of 4 rows at
// once. Where a type keeps them in a raw block is a row of a table; where they go follows from
// PlaceInPlane. Vectors are the compiler's own: a packing is not bound to the build's inner
// product.
#include "cpu/generic/quant_pack.h"

#include <array>
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

// How a raw block holds the low or the high bits of its quants.
enum class RawOrder : uint8_t {
  kNibbles,        // 16 bytes: columns 0..15 in their lower halves, 16..31 in the upper ones
  kString,         // one bit a column, one after the other
  kStacked,        // 32 bytes hold a tile, above it the next one, up to the bytes' last bit
  kStackedInTurn,  // the same, but above a tile is the next but one: two stacks take turns
};

struct RawPlane {
  RawOrder order;
  uint8_t offset_bytes;
};

// Byte offsets in a raw block. Source: ggml-common.h.
struct RawLayout {
  DType dtype;
  uint8_t scale, minimum;  // f16; types without a minimum have a 0 there
  RawPlane low, high;
  uint8_t sub_block_scales;
};

using enum RawOrder;
constexpr RawLayout kRawLayouts[] = {
    {DType::kQ4_0, 0, 0, {kNibbles, 2}, {}, 0},
    {DType::kQ4_1, 0, 2, {kNibbles, 4}, {}, 0},
    {DType::kQ5_0, 0, 0, {kNibbles, 6}, {kString, 2}, 0},
    {DType::kQ5_1, 0, 2, {kNibbles, 8}, {kString, 4}, 0},
    {DType::kQ8_0, 0, 0, {kStacked, 2}, {}, 0},
    {DType::kIQ4_NL, 0, 0, {kNibbles, 2}, {}, 0},
    {DType::kQ2_K, 80, 82, {kStacked, 16}, {}, 0},
    {DType::kQ3_K, 108, 0, {kStacked, 32}, {kStacked, 0}, 96},
    {DType::kQ4_K, 0, 2, {kStacked, 16}, {}, 4},
    {DType::kQ5_K, 0, 2, {kStacked, 48}, {kStacked, 16}, 4},
    {DType::kQ6_K, 208, 0, {kStackedInTurn, 0}, {kStacked, 128}, 192},
};
constexpr uint32_t kMaxRawBlockBytes = 210;

const RawLayout& FindRawLayout(DType dtype) {
  const RawLayout* row = kRawLayouts;
  while (row->dtype != dtype) ++row;
  return *row;
}

// 4 rows' raw blocks.
using RawRows = const uint8_t* const*;

// A 32-bit word of each of 4 rows: 4 raw bytes, or bits of 4 neighbouring columns.
using Words = uint32_t __attribute__((vector_size(16)));
using Halves = uint16_t __attribute__((vector_size(16)));
using Bytes = uint8_t __attribute__((vector_size(16)));

// The bits of a tile's 32 columns: those of columns 4 i .. 4 i + 3 are the lowest of word i's 4
// bytes; what lies above them belongs to others.
using TileWords = Words[8];

// 4 neighbouring words of each row.
void LoadWords(RawRows rows, uint32_t offset, Words* words) {
  Words row[4];
  for (uint32_t r = 0; r < 4; ++r) row[r] = LoadLe<Words>(rows[r] + offset);
  const Words low01 = __builtin_shufflevector(row[0], row[1], 0, 4, 1, 5);
  const Words high01 = __builtin_shufflevector(row[0], row[1], 2, 6, 3, 7);
  const Words low23 = __builtin_shufflevector(row[2], row[3], 0, 4, 1, 5);
  const Words high23 = __builtin_shufflevector(row[2], row[3], 2, 6, 3, 7);
  words[0] = __builtin_shufflevector(low01, low23, 0, 1, 4, 5);
  words[1] = __builtin_shufflevector(low01, low23, 2, 3, 6, 7);
  words[2] = __builtin_shufflevector(high01, high23, 0, 1, 4, 5);
  words[3] = __builtin_shufflevector(high01, high23, 2, 3, 6, 7);
}

void TakeString(RawRows rows, uint32_t offset, TileWords& bits) {
  Words all;
  for (uint32_t r = 0; r < 4; ++r) all[r] = LoadLe<uint32_t>(rows[r] + offset);
  for (Words& word : bits) {
    word = all & 15;
    word |= word << 14;
    word |= word << 7;  // bit k is at 8 k now
    all >>= 4;
  }
}

void TakeTile(RawRows rows, RawPlane plane, uint32_t bit_count, uint32_t tile, TileWords& bits) {
  if (plane.order == kString) return TakeString(rows, plane.offset_bytes, bits);
  const uint32_t tiles_per_stack = 8 / bit_count;
  uint32_t stack = tile / tiles_per_stack, level = tile % tiles_per_stack;
  if (plane.order == kStackedInTurn) {
    stack = tile / 4 * 2 + tile % 2;
    level = tile / 2 % 2;
  }
  const uint32_t offset = plane.offset_bytes + stack * 32;
  LoadWords(rows, offset, bits);
  if (plane.order == kNibbles) {
    for (uint32_t i = 0; i < 4; ++i) bits[i + 4] = bits[i] >> 4;
    return;
  }
  LoadWords(rows, offset + 16, bits + 4);
  for (Words& word : bits) word >>= level * bit_count;
}

template <bool kByteDot, int kBits, bool kIsSigned>
constexpr std::array<BitPlace, 8> PlaceWords() {
  std::array<BitPlace, 8> places = {};
  for (uint32_t i = 0; i < 8; ++i) {
    places[i] = PlaceInPlane<kByteDot>(kIsSigned ? kQ8_0Layout : kQ4_0Layout, kBits, 0, 4 * i);
  }
  return places;
}

// Puts 4 rows' tile into the plane (see PlaceInPlane), whose first vector of these rows is `to`.
// 16-bit lanes are made in pairs, with the low bytes of both in a word's lower half; the bytes are
// put in order last.
template <bool kByteDot, int kBits, bool kIsSigned>
void PutTile(const TileWords& bits, uint8_t* to) {
  constexpr auto kPlaces = PlaceWords<kByteDot, kBits, kIsSigned>();
  constexpr bool kHasByteLanes = kByteDot || kIsSigned;
  Words vectors[kBits] = {};
#pragma clang loop unroll(full)
  for (uint32_t i = 0; i < 8; ++i) {
    Words word = bits[i] & 0x01010101u * ((1u << kBits) - 1);
    if (!kHasByteLanes) word = (word | word >> (16 - kBits)) & 0x0101u * ((1u << 2 * kBits) - 1);
    const BitPlace place = kPlaces[i];
    vectors[place.byte / 32] |= word << (place.byte % 4 * 16 + place.shift);
  }
  for (Words& vector : vectors) {
    if (!kHasByteLanes) {
      const auto bytes = reinterpret_cast<Bytes>(vector);
      vector = reinterpret_cast<Words>(__builtin_shufflevector(bytes, bytes, 0, 2, 1, 3, 4, 6, 5, 7,
                                                               8, 10, 9, 11, 12, 14, 13, 15));
    } else if (!kByteDot) {  // a row's two steps lie 8 bytes apart
      const auto halves = reinterpret_cast<Halves>(vector);
      vector =
          reinterpret_cast<Words>(__builtin_shufflevector(halves, halves, 0, 2, 4, 6, 1, 3, 5, 7));
    }
    StoreLe(to, vector);
    to += 32;
  }
}

template <bool kByteDot>
auto FindPutTile(const QuantLayout& layout, int bit_count) {
  if (bit_count == 1) return PutTile<kByteDot, 1, false>;
  if (bit_count == 2) return PutTile<kByteDot, 2, false>;
  if (bit_count == 8) return PutTile<kByteDot, 8, true>;
  return !kByteDot && layout.is_signed ? PutTile<kByteDot, 4, true> : PutTile<kByteDot, 4, false>;
}

// Packs 8 rows' low or high bits of a block; `to` is the first tile's plane.
template <bool kByteDot>
void PackPlane(const QuantLayout& layout, RawRows rows, RawPlane plane, int bit_count,
               uint8_t* to) {
  const auto put_tile = FindPutTile<kByteDot>(layout, bit_count);
  for (uint32_t i = 0; i < layout.TileCount() * 2; ++i) {
    const uint32_t tile = i / 2, half = i % 2;
    TileWords bits;
    TakeTile(rows + half * 4, plane, static_cast<uint32_t>(bit_count), tile, bits);
    put_tile(bits, to + tile * layout.TileSizeBytes() + half * 16);
  }
}

void PackHeader(const QuantLayout& layout, const RawLayout& raw, const uint8_t* block, uint32_t row,
                std::byte* header) {
  const auto scale = LoadLe<uint16_t>(block + raw.scale);
  const auto minimum = LoadLe<uint16_t>(block + raw.minimum);
  if (layout.HasSubBlocks()) {
    StoreLe(header + row * 4, HalfToFloat(scale));
    if (layout.HasMinimum()) StoreLe(header + 32 + row * 4, -HalfToFloat(minimum));
  } else {
    StoreLe(header + row * 2, scale);
    if (layout.HasMinimum()) StoreLe(header + 16 + row * 2, minimum);
  }
}

// A row's two scales in each tile; `to` is the first tile's.
void PackTileScales(const QuantLayout& layout, const uint8_t* raw, uint8_t* to) {
  for (uint32_t t = 0; t < layout.TileCount(); ++t, to += layout.TileSizeBytes()) {
    if (layout.scales == ScaleKind::kSub32Minimum) {
      const KScaleMin scales = UnpackQ4KScaleMin(raw, t);
      to[0] = scales.scale;
      to[8] = scales.minimum;
    } else if (layout.dtype == DType::kQ3_K) {
      to[0] = static_cast<uint8_t>(UnpackQ3KScale(raw, t * 2));
      to[8] = static_cast<uint8_t>(UnpackQ3KScale(raw, t * 2 + 1));
    } else {
      to[0] = raw[t * 2];
      to[8] = raw[t * 2 + 1];
    }
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
  const RawLayout& raw = FindRawLayout(layout.dtype);
  const uint32_t block_count = column_count / layout.BlockLength();
  const uint32_t raw_block_size_bytes = GetDType(layout.dtype).block_size_bytes;
  if (row_count < kGroupRowCount) {
    std::memset(group, 0, size_t{block_count} * layout.BlockSizeBytes());
  }
  const uint8_t missing_row[kMaxRawBlockBytes] = {};
  const uint8_t* blocks[kGroupRowCount];
  for (uint32_t row = 0; row < kGroupRowCount; ++row) {
    const size_t offset = size_t{row} * block_count * raw_block_size_bytes;
    blocks[row] =
        row < row_count ? reinterpret_cast<const uint8_t*>(raw_rows) + offset : missing_row;
  }
  for (uint32_t i = 0; i < block_count; ++i, group += layout.BlockSizeBytes()) {
    auto* planes = reinterpret_cast<uint8_t*>(group) + layout.HeaderSizeBytes();
    for (uint32_t row = 0; row < row_count; ++row) {
      PackHeader(layout, raw, blocks[row], row, group);
      if (!layout.HasSubBlocks()) continue;
      PackTileScales(layout, blocks[row] + raw.sub_block_scales, planes + row);
    }
    planes += layout.TileScalesSizeBytes();
    PackPlane<kByteDot>(layout, blocks, raw.low, layout.low_bits, planes);
    if (layout.high_bits != 0) {
      planes += layout.PlaneSizeBytes(layout.low_bits);
      PackPlane<kByteDot>(layout, blocks, raw.high, layout.high_bits, planes);
    }
    for (uint32_t row = 0; row < row_count; ++row) blocks[row] += raw_block_size_bytes;
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
