// The product of quantized rows with 8-bit activations: the kernel for one token, which reads the
// packed weights (quant_layout.h) as a stream, and the table of what every type has. Several tokens
// at once: quant_tiles.h.
//
// Sums of products are exact integers for 16 or 32 columns; a float accumulator for each row then
// adds scale_w * scale_x * sum, and minimum * scale_x * sum(q_x), in the order of the blocks. So a
// token's result is the same bits however many tokens or rows go together.
#pragma once

#include <type_traits>

#include "cpu/generic/quant_tiles.h"

namespace nonstop::cpu {

// One token is bound by memory, and processors fetch ahead only to the end of a page. Several
// streams at once keep more pages open: here (Xeon, 4 KiB pages) 8 are half as fast again as 4, and
// 12 or 16 no better.
inline constexpr uint32_t kStreamCount = 8;

// Groups of 8 rows as streams: stream s has the groups [s * group_count, (s + 1) * group_count).
struct GroupStreams {
  const std::byte* groups;
  uint32_t stream_count;  // at most kStreamCount
  uint32_t group_count;   // of each
  uint32_t block_count;   // of a group
};

// Writes y[8 * g + r] for all groups.
using QuantKernel = void (*)(const GroupStreams& streams, const std::byte* x, float* y);

template <class S, QuantLayout kLayout>
[[gnu::always_inline]] inline FloatPair<S> AddBlock(const std::byte* block,
                                                    const ActivationBlock<S::kByteDot>* x_block,
                                                    FloatPair<S> acc) {
  using Quants = PackedQuants<S, kLayout>;
  const BlockHeader<S, kLayout> header(block);
  const std::byte* tile = block + kLayout.HeaderSizeBytes();
#pragma clang loop unroll(disable)
  for (uint32_t i = 0; i < kLayout.TileCount(); ++i, tile += kLayout.TileSizeBytes()) {
    const Quants quants{tile + kLayout.TileScalesSizeBytes()};
    TileSums<S, Quants, 1> sums;
    sums.Start(quants, &x_block);
    sums.Add(quants, &x_block);
    AddScaled<S, Quants, 1, kLayout.HasMinimum()>(sums, LoadTileScales<S, kLayout>(header, tile),
                                                  &x_block, &acc);
    ++x_block;
  }
  return acc;
}

template <class S, QuantLayout kLayout>
void MultiplyStreams(const GroupStreams& streams, const std::byte* x, float* y) {
  const size_t group_size_bytes = size_t{streams.block_count} * kLayout.BlockSizeBytes();
  const size_t stream_size_bytes = streams.group_count * group_size_bytes;
  const auto factor = S::SplatF(ResultFactor(kLayout));
  const std::byte* blocks = streams.groups;
  for (uint32_t g = 0; g < streams.group_count; ++g, y += kGroupRowCount) {
    FloatPair<S> acc[kStreamCount];
    for (auto& sum : acc) sum = {{S::SplatF(0), S::SplatF(0)}};
    const auto* x_block = reinterpret_cast<const ActivationBlock<S::kByteDot>*>(x);
    for (uint32_t b = 0; b < streams.block_count; ++b, blocks += kLayout.BlockSizeBytes()) {
      const std::byte* block = blocks;
#pragma clang loop unroll(disable)
      for (uint32_t s = 0; s < streams.stream_count; ++s, block += stream_size_bytes) {
        acc[s] = AddBlock<S, kLayout>(block, x_block, acc[s]);
      }
      x_block += kLayout.TileCount();
    }
    for (uint32_t s = 0; s < streams.stream_count; ++s) {
      StoreFloats8<S>(y + size_t{s} * streams.group_count * kGroupRowCount,
                      {{S::Mul(acc[s].half[0], factor), S::Mul(acc[s].half[1], factor)}});
    }
  }
}

struct QuantKernels {
  const QuantLayout* layout;
  uint32_t unpacked_tile_size_bytes;
  QuantKernel one_token;
  UnpackKernel unpack;
  TileKernel two_tokens, four_tokens;
};

// S may be a target's variant with pair dots; unpacking is that of Base in both, and so is one
// token with the less common types, for the module's size.
template <class S, class Base, const QuantLayout& kLayout>
inline constexpr QuantKernels kQuantKernelsOf = {
    &kLayout,
    sizeof(Tile<Base, TileKindOf<Base>(kLayout)>),
    MultiplyStreams<std::conditional_t<kLayout.is_common, S, Base>, kLayout>,
    UnpackTiles<Base, kLayout>,
    MultiplyTiles<S, TileKindOf<S>(kLayout), 2>,
    MultiplyTiles<S, TileKindOf<S>(kLayout), 4>};

template <class S, class Base = S>
inline constexpr QuantKernels kQuantKernels[] = {
    kQuantKernelsOf<S, Base, kQ4_0Layout>, kQuantKernelsOf<S, Base, kQ4_1Layout>,
    kQuantKernelsOf<S, Base, kQ5_0Layout>, kQuantKernelsOf<S, Base, kQ5_1Layout>,
    kQuantKernelsOf<S, Base, kQ8_0Layout>, kQuantKernelsOf<S, Base, kIQ4_NLLayout>,
    kQuantKernelsOf<S, Base, kQ2_KLayout>, kQuantKernelsOf<S, Base, kQ3_KLayout>,
    kQuantKernelsOf<S, Base, kQ4_KLayout>, kQuantKernelsOf<S, Base, kQ5_KLayout>,
    kQuantKernelsOf<S, Base, kQ6_KLayout>};

}  // namespace nonstop::cpu
