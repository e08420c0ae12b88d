// Weight matrices as the CPU kernels read them: packed formats, packing while a file streams in,
// activations, and the matrix product. One source for every build over vec/; what a format looks
// like inside is private to generic/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/dtype.h"

namespace nonstop::cpu {

enum class ActivationType : uint8_t { kQ8, kF32 };

// How a matrix lies in memory. kRaw: GGUF rows as they are, which only the reference multiplies
// with. kInterleaved8: groups of 8 rows, as the build's inner product wants them.
enum class PackedFormat : uint8_t { kRaw, kInterleaved8 };

struct Matrix {  // (row_count, column_count)
  DType dtype = DType::kF32;
  PackedFormat format = PackedFormat::kRaw;
  uint32_t row_count = 0;
  uint32_t column_count = 0;
  const std::byte* data = nullptr;  // 64-byte aligned
};

// What MatMul should be given for weights of `dtype` when `wanted` is the user's choice: F32, F16
// and BF16 weights always take f32 (MatMul accepts either, but 8 bits would only cost time there).
ActivationType ChooseActivation(DType dtype, ActivationType wanted);

uint64_t PackedSizeBytes(PackedFormat format, DType dtype, uint32_t row_count,
                         uint32_t column_count);

// Packs rows [row_begin, row_begin + row_count) from raw GGUF rows into the matrix's storage.
// row_begin is a multiple of 8; row_count too, except at the matrix's end (missing rows of the last
// group are written as zeros). Touches only the bytes of these rows. Infinity and NaN need not stay
// what they are: weights are looked through for them first (tensor/finite.h).
void PackRows(PackedFormat format, DType dtype, const std::byte* raw_rows, uint32_t row_begin,
              uint32_t row_count, uint32_t column_count, std::byte* packed);

// One row as f32 (embedding look-up).
void UnpackRow(const Matrix& matrix, uint32_t row, float* out);

// Activations of `row_count` tokens, prepared for MatMul: f32 as they are, or quantized to 8 bit in
// blocks of 32 (with what else the build's kernels want: sums, 16-bit copies).
size_t ActivationRowSizeBytes(ActivationType type, uint32_t column_count);  // multiple of 64

struct Activations {
  ActivationType type = ActivationType::kQ8;
  uint32_t row_count = 0;
  uint32_t column_count = 0;
  const std::byte* data = nullptr;  // (row_count, ActivationRowSizeBytes)
};

// NaN and infinity give NaN or infinity, in either type (for kQ8 so does everything from 2^70 on).
void PrepareActivationRow(ActivationType type, const float* x, uint32_t column_count,
                          std::byte* out);

// Elements [begin, begin + count) of a prepared row as the f32 values that MatMul multiplies with;
// begin is a multiple of 32.
void UnpackActivations(ActivationType type, const std::byte* row, uint32_t begin, uint32_t count,
                       float* out);

// y[t * y_stride + (r - row_begin)] = sum_k W[r, k] * x[t, k] for r in [row_begin, row_end) and
// every activation row t. The matrix is packed; row_begin is a multiple of 8, row_end too or the
// matrix's end. Writes exactly row_end - row_begin floats per token. Tiles inside for many tokens.
void MatMul(const Matrix& w, uint32_t row_begin, uint32_t row_end, const Activations& x, float* y,
            size_t y_stride);

// The same result by way of 16-bit sums, which is faster on x86 processors without AVX-VNNI (where
// the build has such kernels; else it is MatMul).
void MatMulByPairs(const Matrix& w, uint32_t row_begin, uint32_t row_end, const Activations& x,
                   float* y, size_t y_stride);
// Whether the processor is such a one, seen from how its inner product saturates.
bool PairDotsAreFaster();

}  // namespace nonstop::cpu
