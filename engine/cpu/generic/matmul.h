// The matrix product over a vector target S: which kernel, and in which order over rows and tokens.
// Quantized weights with 8-bit activations go through quant_matmul.h. Everything else is f32:
// interleaved float types as they lie, the rest dequantized into a tile of 8 rows x 256 columns.
// A template, so that tests can run every target of a build; the build's own is in matrix.cc.
#pragma once

#include <algorithm>
#include <span>

#include "base/check.h"
#include "cpu/generic/float_matmul.h"
#include "cpu/generic/interleave.h"
#include "cpu/generic/quant_matmul.h"
#include "cpu/generic/quant_pack.h"

namespace nonstop::cpu {

// Unpacked tiles of weights that all tokens pass over: a part of the second-level cache, and of the
// stack. Columns go in ranges, so that at least one group fits.
inline constexpr uint32_t kTilesSizeBytes = 48 * 1024;
inline constexpr uint32_t kRangeColumns = 2048;

template <class S>
class MatMulOn {
 public:
  static void Run(const Matrix& w, uint32_t row_begin, uint32_t row_end, const Activations& x,
                  float* y, size_t y_stride) {
    Run(kQuantKernels<S>, w, row_begin, row_end, x, y, y_stride);
  }

  // With the quantized kernels of S or of its variant with pair dots.
  static void Run(std::span<const QuantKernels> quant_kernels, const Matrix& w, uint32_t row_begin,
                  uint32_t row_end, const Activations& x, float* y, size_t y_stride) {
    CHECK(row_begin <= row_end && row_end <= w.row_count && w.column_count == x.column_count);
    CHECK(w.format == PackedFormat::kInterleaved8 && row_begin % kGroupRowCount == 0);
    CHECK(row_end % kGroupRowCount == 0 || row_end == w.row_count);
    MatMulOn product(w, row_begin, row_end, x, y, y_stride);
    const QuantKernels* quant = nullptr;
    for (const QuantKernels& kernels : quant_kernels) {
      if (kernels.layout->dtype == w.dtype) quant = &kernels;
    }
    if (quant != nullptr && x.type == ActivationType::kQ8) {
      return product.RunQuantized(*quant);
    }
    product.RunFloat(quant);
  }

 private:
  MatMulOn(const Matrix& w, uint32_t row_begin, uint32_t row_end, const Activations& x, float* y,
           size_t y_stride)
      : w_(w), row_begin_(row_begin), row_end_(row_end), x_(x), y_(y), y_stride_(y_stride) {}

  void RunQuantized(const QuantKernels& kernels) {
    const uint32_t even_count = x_.row_count / 2 * 2;
    if (even_count > 0) {
      alignas(64) std::byte tiles[kTilesSizeBytes];
      const uint32_t group_count = (row_end_ - row_begin_) / kGroupRowCount;
      const uint32_t step = GroupsAtOnce(kernels);
      for (uint32_t g = 0; g < group_count; g += step) {
        MultiplyUnpacked(kernels, g, std::min(step, group_count - g), even_count, tiles);
      }
      MultiplyLastRows(kernels, even_count, tiles);
    }
    if (even_count < x_.row_count) MultiplyLastToken(kernels);
  }

  const std::byte* GroupAt(const QuantKernels& kernels, uint32_t group) const {
    return w_.data + (row_begin_ / kGroupRowCount + group) * GroupSizeBytes(kernels);
  }
  uint64_t GroupSizeBytes(const QuantKernels& kernels) const {
    return uint64_t{w_.column_count} / kernels.layout->BlockLength() *
           kernels.layout->BlockSizeBytes();
  }

  // Groups whose unpacked tiles, for a range of columns, fit into the buffer.
  uint32_t GroupsAtOnce(const QuantKernels& kernels) const {
    const uint32_t tile_count = std::min(w_.column_count, kRangeColumns) / kTileColumnCount;
    return std::max(kTilesSizeBytes / (std::max(tile_count, 1u) * kernels.unpacked_tile_size_bytes),
                    1u);
  }

  // Groups [first, first + count) times the first `token_count` tokens.
  void MultiplyUnpacked(const QuantKernels& kernels, uint32_t first, uint32_t count,
                        uint32_t token_count, std::byte* tiles) {
    ForEachRange(kernels, first, count, tiles, [&](const TileProduct& product, const std::byte* x) {
      float* y = y_ + size_t{first} * kGroupRowCount;
      for (uint32_t t = 0; t < token_count;) {
        const bool four = token_count - t >= 4;
        (four ? kernels.four_tokens : kernels.two_tokens)(product, x + t * ActivationRowBytes(),
                                                          ActivationRowBytes(), y + t * y_stride_,
                                                          y_stride_);
        t += four ? 4 : 2;
      }
    });
  }

  // Unpacks the groups range by range of their columns; visit(product, first token's activations).
  template <class Visit>
  void ForEachRange(const QuantKernels& kernels, uint32_t first, uint32_t count, std::byte* tiles,
                    Visit&& visit) {
    const QuantLayout& layout = *kernels.layout;
    for (uint32_t begin = 0; begin < w_.column_count; begin += kRangeColumns) {
      const uint32_t end = std::min(begin + kRangeColumns, w_.column_count);
      const uint32_t tile_count = (end - begin) / kTileColumnCount;
      const size_t group_tiles_size_bytes = size_t{tile_count} * kernels.unpacked_tile_size_bytes;
      const size_t block_offset = size_t{begin} / layout.BlockLength() * layout.BlockSizeBytes();
      for (uint32_t g = 0; g < count; ++g) {
        kernels.unpack(GroupAt(kernels, first + g) + block_offset,
                       (end - begin) / layout.BlockLength(), tiles + g * group_tiles_size_bytes);
      }
      visit(TileProduct{.tiles = tiles,
                        .group_count = count,
                        .tile_count = tile_count,
                        .offset = layout.offset,
                        .continues = begin != 0,
                        .factor = end == w_.column_count ? ResultFactor(layout) : 1.0f},
            x_.data + begin / kActivationBlockLength * sizeof(ActivationBlock<S::kByteDot>));
    }
  }

  // The group at the matrix's end that has fewer than 8 rows, if it is there.
  void MultiplyLastRows(const QuantKernels& kernels, uint32_t token_count, std::byte* tiles) {
    const uint32_t row_count = (row_end_ - row_begin_) % kGroupRowCount;
    const uint32_t group = (row_end_ - row_begin_) / kGroupRowCount;
    for (uint32_t t = 0; row_count > 0 && t < token_count; t += 2) {
      float sums[2 * kGroupRowCount];
      ForEachRange(kernels, group, 1, tiles, [&](const TileProduct& product, const std::byte* x) {
        kernels.two_tokens(product, x + t * ActivationRowBytes(), ActivationRowBytes(), sums,
                           kGroupRowCount);
      });
      for (uint32_t i = 0; i < 2; ++i) {
        std::copy_n(sums + i * kGroupRowCount, row_count,
                    y_ + (t + i) * y_stride_ + size_t{group} * kGroupRowCount);
      }
    }
  }

  void MultiplyLastToken(const QuantKernels& kernels) {
    const uint32_t t = x_.row_count - 1;
    const std::byte* x = x_.data + t * ActivationRowBytes();
    float* y = y_ + t * y_stride_;
    const uint32_t row_count = row_end_ - row_begin_;
    const uint32_t group_count = row_count / kGroupRowCount;
    const uint32_t block_count = w_.column_count / kernels.layout->BlockLength();
    // Long streams, then what is left over as streams of one group each.
    const uint32_t left_count = group_count % kStreamCount;
    const uint32_t left = group_count - left_count;
    kernels.one_token({GroupAt(kernels, 0), kStreamCount, group_count / kStreamCount, block_count},
                      x, y);
    kernels.one_token({GroupAt(kernels, left), left_count, 1, block_count}, x,
                      y + size_t{left} * kGroupRowCount);
    if (row_count % kGroupRowCount == 0) return;
    float sums[kGroupRowCount];
    kernels.one_token({GroupAt(kernels, group_count), 1, 1, block_count}, x, sums);
    std::copy_n(sums, row_count % kGroupRowCount, y + size_t{group_count} * kGroupRowCount);
  }

  // `quant`: null if the weights are floats.
  void RunFloat(const QuantKernels* quant) {
    const bool lies_as_tiles = quant == nullptr;
    const FloatKernels& kernels = FindFloatKernels(lies_as_tiles ? w_.dtype : DType::kF32);
    alignas(64) float tile[kFloatChunk * kGroupRowCount];
    for (uint32_t row = row_begin_; row < row_end_; row += kGroupRowCount) {
      for (uint32_t begin = 0; begin < w_.column_count; begin += kFloatChunk) {
        const uint32_t count = std::min(kFloatChunk, w_.column_count - begin);
        const std::byte* weights = reinterpret_cast<const std::byte*>(tile);
        if (lies_as_tiles) {
          weights = w_.data + size_t{row} * w_.column_count * kernels.element_size_bytes +
                    size_t{begin} * kGroupRowCount * kernels.element_size_bytes;
        } else {
          FillTile(*quant, (row - row_begin_) / kGroupRowCount, begin, count, tile);
        }
        MultiplyChunk(kernels, weights, row, begin, count);
      }
    }
  }

  static const FloatKernels& FindFloatKernels(DType dtype) {
    for (const FloatKernels& kernels : kFloatKernels<S>) {
      if (kernels.dtype == dtype) return kernels;
    }
    CHECK(false);
  }

  // tile[8 * k + r] = W[row + r, begin + k], by way of the tiles that 8-bit products take.
  void FillTile(const QuantKernels& kernels, uint32_t group, uint32_t begin, uint32_t count,
                float* tile) {
    constexpr uint32_t kMostTileSizeBytes = 2 * 2 * kGroupRowCount * 4 + kStepCount<S> * 2 * 16;
    alignas(64) std::byte tiles[kFloatChunk / kTileColumnCount * kMostTileSizeBytes];
    const QuantLayout& layout = *kernels.layout;
    DCHECK(kernels.unpacked_tile_size_bytes <= kMostTileSizeBytes);
    kernels.unpack(
        GroupAt(kernels, group) + size_t{begin} / layout.BlockLength() * layout.BlockSizeBytes(),
        count / layout.BlockLength(), tiles);
    TilesToFloats<S>(tiles, count / kTileColumnCount, kernels.unpacked_tile_size_bytes, layout,
                     tile);
  }

  void MultiplyChunk(const FloatKernels& kernels, const std::byte* weights, uint32_t row,
                     uint32_t begin, uint32_t count) {
    const uint32_t valid_row_count = std::min(kGroupRowCount, row_end_ - row);
    float x_scratch[4 * kFloatChunk];
    float sums[4 * kGroupRowCount];
    for (uint32_t t = 0; t < x_.row_count;) {
      const uint32_t token_count = x_.row_count - t >= 4 ? 4 : 1;
      const FloatKernel kernel = token_count == 4 ? kernels.tokens_4 : kernels.tokens_1;
      if (x_.type == ActivationType::kF32) {
        kernel(weights, count,
               reinterpret_cast<const float*>(x_.data + t * ActivationRowBytes()) + begin,
               ActivationRowBytes() / sizeof(float), sums);
      } else {
        for (uint32_t i = 0; i < token_count; ++i) {
          DequantizeActivations<S::kByteDot>(x_.data + (t + i) * ActivationRowBytes(), begin, count,
                                             x_scratch + i * kFloatChunk);
        }
        kernel(weights, count, x_scratch, kFloatChunk, sums);
      }
      for (uint32_t i = 0; i < token_count; ++i) {
        float* y = y_ + (t + i) * y_stride_ + (row - row_begin_);
        for (uint32_t r = 0; r < valid_row_count; ++r) {
          y[r] = begin == 0 ? sums[i * kGroupRowCount + r] : y[r] + sums[i * kGroupRowCount + r];
        }
      }
      t += token_count;
    }
  }

  size_t ActivationRowBytes() const {
    return x_.type == ActivationType::kQ8
               ? Q8RowSizeBytes<S::kByteDot>(w_.column_count)
               : (size_t{w_.column_count} * sizeof(float) + 63) / 64 * 64;
  }

  const Matrix& w_;
  const uint32_t row_begin_, row_end_;
  const Activations& x_;
  float* const y_;
  const size_t y_stride_;
};

}  // namespace nonstop::cpu
