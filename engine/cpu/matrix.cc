// The entry points of matrix.h, for the build's own vector target.
#include "cpu/matrix.h"

#include <cstring>

#include "base/bytes.h"
#include "base/check.h"
#include "cpu/generic/matmul.h"
#include "cpu/vec/vec.h"
#include "tensor/dequantize.h"

namespace nonstop::cpu {
namespace {

using vec::Native;

bool IsFloat(DType dtype) { return GetDType(dtype).block_length == 1; }

// 255 is no operand that kernels use: two instructions add its products to pairs with saturation
// (65534), one adds all four (129540) or takes it for -1 (-508).
template <class S>
bool AddsPairsFirst() {
  if constexpr (S::kPairDot) {
    volatile int32_t bytes = 0x7f7f7f7f, beyond = -1;  // so that the compiler does not work it out
    int32_t lanes[4];
    S::StoreI(lanes, S::DotBytes(S::Splat32(bytes), S::Splat32(beyond), S::Splat32(0)));
    return lanes[0] == 65534;
  }
  return false;
}

}  // namespace

ActivationType ChooseActivation(DType dtype, ActivationType wanted) {
  return IsFloat(dtype) ? ActivationType::kF32 : wanted;
}

uint64_t PackedSizeBytes(PackedFormat format, DType dtype, uint32_t row_count,
                         uint32_t column_count) {
  if (format == PackedFormat::kRaw) return row_count * RowSizeBytes(dtype, column_count);
  return uint64_t{DivideRoundUp(row_count, kGroupRowCount)} *
         InterleavedGroupSizeBytes(dtype, column_count);
}

void PackRows(PackedFormat format, DType dtype, const std::byte* raw_rows, uint32_t row_begin,
              uint32_t row_count, uint32_t column_count, std::byte* packed) {
  if (format == PackedFormat::kInterleaved8) {
    PackInterleaved<Native::kByteDot>(dtype, raw_rows, row_begin, row_count, column_count, packed);
    return;
  }
  const uint64_t row_size_bytes = RowSizeBytes(dtype, column_count);
  std::memcpy(packed + row_begin * row_size_bytes, raw_rows, row_count * row_size_bytes);
}

void UnpackRow(const Matrix& matrix, uint32_t row, float* out) {
  CHECK(row < matrix.row_count);
  if (matrix.format == PackedFormat::kInterleaved8) {
    UnpackInterleaved<Native::kByteDot>(matrix, row, 0, matrix.column_count, out);
    return;
  }
  const uint64_t row_size_bytes = RowSizeBytes(matrix.dtype, matrix.column_count);
  DequantizeRow(matrix.dtype, matrix.data + row * row_size_bytes, matrix.column_count, out);
}

size_t ActivationRowSizeBytes(ActivationType type, uint32_t column_count) {
  if (type == ActivationType::kQ8) return Q8RowSizeBytes<Native::kByteDot>(column_count);
  return RoundUp(size_t{column_count} * sizeof(float), size_t{64});
}

void PrepareActivationRow(ActivationType type, const float* x, uint32_t column_count,
                          std::byte* out) {
  if (type == ActivationType::kQ8) {
    QuantizeRow<Native::kByteDot>(x, column_count, out);
  } else {
    std::memcpy(out, x, size_t{column_count} * sizeof(float));
  }
}

void UnpackActivations(ActivationType type, const std::byte* row, uint32_t begin, uint32_t count,
                       float* out) {
  if (type == ActivationType::kQ8) {
    DequantizeActivations<Native::kByteDot>(row, begin, count, out);
  } else {
    std::memcpy(out, row + size_t{begin} * sizeof(float), size_t{count} * sizeof(float));
  }
}

void MatMul(const Matrix& w, uint32_t row_begin, uint32_t row_end, const Activations& x, float* y,
            size_t y_stride) {
  MatMulOn<Native>::Run(w, row_begin, row_end, x, y, y_stride);
}

void MatMulByPairs(const Matrix& w, uint32_t row_begin, uint32_t row_end, const Activations& x,
                   float* y, size_t y_stride) {
  MatMulOn<Native>::Run(kQuantKernels<vec::NativePairs, Native>, w, row_begin, row_end, x, y,
                        y_stride);
}

bool PairDotsAreFaster() { return AddsPairsFirst<vec::NativePairs>(); }

}  // namespace nonstop::cpu
