// The matrix product over a vector target S: which kernel, and in which order over rows and tokens.
// Quantized weights with 8-bit activations go through quant_matmul.h. Everything else is f32:
// interleaved float types as they lie, the rest dequantized into a tile of 8 rows x 256 columns.
// A template, so that tests can run every target of a build; the build's own is in matrix.cc.
#pragma once

#include <algorithm>

#include "base/check.h"
#include "cpu/generic/float_matmul.h"
#include "cpu/generic/interleave.h"
#include "cpu/generic/quant_matmul.h"
#include "cpu/generic/quant_pack.h"

namespace nonstop::cpu {

// What a tile of weights may take of the second-level cache while all tokens pass over it.
inline constexpr uint64_t kWeightTileSizeBytes = 128 * 1024;

template <class S>
class MatMulOn {
 public:
  static void Run(const Matrix& w, uint32_t row_begin, uint32_t row_end, const Activations& x,
                  float* y, size_t y_stride) {
    CHECK(row_begin <= row_end && row_end <= w.row_count && w.column_count == x.column_count);
    if (w.format == PackedFormat::kInterleaved8) {
      CHECK(row_begin % kGroupRowCount == 0);
      CHECK(row_end % kGroupRowCount == 0 || row_end == w.row_count);
    }
    MatMulOn product(w, row_begin, row_end, x, y, y_stride);
    if (w.format == PackedFormat::kInterleaved8 && x.type == ActivationType::kQ8) {
      for (const QuantKernels& kernels : kQuantKernels<S>) {
        if (kernels.dtype == w.dtype) return product.RunQuantized(kernels);
      }
    }
    product.RunFloat();
  }

 private:
  MatMulOn(const Matrix& w, uint32_t row_begin, uint32_t row_end, const Activations& x, float* y,
           size_t y_stride)
      : w_(w), row_begin_(row_begin), row_end_(row_end), x_(x), y_(y), y_stride_(y_stride) {}

  void RunQuantized(const QuantKernels& kernels) {
    const uint32_t row_count = row_end_ - row_begin_;
    const uint32_t full_group_count = row_count / kGroupRowCount;
    const uint64_t group_size_bytes = InterleavedGroupSizeBytes(w_.dtype, w_.column_count);
    const std::byte* groups = w_.data + row_begin_ / kGroupRowCount * group_size_bytes;
    const uint32_t step = static_cast<uint32_t>(
        std::max<uint64_t>(kWeightTileSizeBytes / std::max<uint64_t>(group_size_bytes, 1), 1));
    for (uint32_t g = 0; g < full_group_count; g += step) {
      MultiplyAllTokens(kernels, groups + g * group_size_bytes,
                        std::min(step, full_group_count - g), kGroupRowCount,
                        y_ + size_t{g} * kGroupRowCount);
    }
    if (row_count % kGroupRowCount != 0) {
      MultiplyAllTokens(kernels, groups + full_group_count * group_size_bytes, 1,
                        row_count % kGroupRowCount, y_ + size_t{full_group_count} * kGroupRowCount);
    }
  }

  // `valid_row_count` is less than 8 for a last group that is not full.
  void MultiplyAllTokens(const QuantKernels& kernels, const std::byte* groups, uint32_t group_count,
                         uint32_t valid_row_count, float* y) {
    const size_t x_stride_bytes = ActivationRowBytes();
    const uint32_t block_count = w_.column_count / GetDType(w_.dtype).block_length;
    for (uint32_t t = 0; t < x_.row_count;) {
      const uint32_t left = x_.row_count - t;
      const uint32_t count = left >= 4 ? 4 : 1;
      const QuantKernel kernel = count == 4 ? kernels.tokens_4 : kernels.tokens_1;
      const std::byte* x = x_.data + t * x_stride_bytes;
      if (valid_row_count == kGroupRowCount) {
        kernel(groups, group_count, block_count, x, x_stride_bytes, y + t * y_stride_, y_stride_);
      } else {
        float sums[4 * kGroupRowCount];
        kernel(groups, 1, block_count, x, x_stride_bytes, sums, kGroupRowCount);
        for (uint32_t i = 0; i < count; ++i) {
          std::copy_n(sums + i * kGroupRowCount, valid_row_count, y + (t + i) * y_stride_);
        }
      }
      t += count;
    }
  }

  void RunFloat() {
    const bool lies_as_tiles =
        w_.format == PackedFormat::kInterleaved8 && FindQuantLayout(w_.dtype) == nullptr;
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
          FillTile(row, begin, count, tile);
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

  // tile[8 * k + r] = W[row + r, begin + k].
  void FillTile(uint32_t row, uint32_t begin, uint32_t count, float* tile) {
    float values[kFloatChunk];
    for (uint32_t r = 0; r < kGroupRowCount; ++r) {
      if (row + r >= row_end_) {
        std::fill_n(values, count, 0.0f);
      } else if (w_.format == PackedFormat::kRaw) {
        const uint64_t row_size_bytes = RowSizeBytes(w_.dtype, w_.column_count);
        DequantizeRow(w_.dtype,
                      w_.data + (row + r) * row_size_bytes + RowSizeBytes(w_.dtype, begin), count,
                      values);
      } else {
        UnpackInterleaved<S::kByteDot>(w_, row + r, begin, count, values);
      }
      for (uint32_t k = 0; k < count; ++k) tile[k * kGroupRowCount + r] = values[k];
    }
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
