// The entry points of matrix.h: choice of format and activation.
#include "cpu/matrix.h"

#include <cstring>

#include "base/bytes.h"
#include "base/check.h"
#include "cpu/generic/activations.h"
#include "cpu/reference/matmul.h"
#include "tensor/dequantize.h"

namespace nonstop::cpu {
namespace {

constexpr bool kByteDot = true;

}  // namespace

ActivationType ChooseActivation(DType dtype, ActivationType wanted) {
  const bool is_float = GetDType(dtype).block_length == 1;
  return is_float ? ActivationType::kF32 : wanted;
}

PackedFormat ChooseFormat(DType, ActivationType, uint32_t) { return PackedFormat::kRaw; }

uint64_t PackedSizeBytes(PackedFormat format, DType dtype, uint32_t row_count,
                         uint32_t column_count) {
  CHECK(format == PackedFormat::kRaw);
  return row_count * RowSizeBytes(dtype, column_count);
}

void PackRows(PackedFormat format, DType dtype, const std::byte* raw_rows, uint32_t row_begin,
              uint32_t row_count, uint32_t column_count, std::byte* packed) {
  CHECK(format == PackedFormat::kRaw);
  const uint64_t row_size_bytes = RowSizeBytes(dtype, column_count);
  std::memcpy(packed + row_begin * row_size_bytes, raw_rows, row_count * row_size_bytes);
}

void UnpackRow(const Matrix& matrix, uint32_t row, float* out) {
  CHECK(row < matrix.row_count && matrix.format == PackedFormat::kRaw);
  const uint64_t row_size_bytes = RowSizeBytes(matrix.dtype, matrix.column_count);
  DequantizeRow(matrix.dtype, matrix.data + row * row_size_bytes, matrix.column_count, out);
}

size_t ActivationRowSizeBytes(ActivationType type, uint32_t column_count) {
  if (type == ActivationType::kQ8) return Q8RowSizeBytes<kByteDot>(column_count);
  return RoundUp(size_t{column_count} * sizeof(float), size_t{64});
}

void PrepareActivationRow(ActivationType type, const float* x, uint32_t column_count,
                          std::byte* out) {
  if (type == ActivationType::kQ8) {
    QuantizeRow<kByteDot>(x, column_count, out);
  } else {
    std::memcpy(out, x, size_t{column_count} * sizeof(float));
  }
}

void UnpackActivations(ActivationType type, const std::byte* row, uint32_t begin, uint32_t count,
                       float* out) {
  if (type == ActivationType::kQ8) {
    DequantizeActivations<kByteDot>(row, begin, count, out);
  } else {
    std::memcpy(out, row + size_t{begin} * sizeof(float), size_t{count} * sizeof(float));
  }
}

void MatMul(const Matrix& w, uint32_t row_begin, uint32_t row_end, const Activations& x, float* y,
            size_t y_stride) {
  reference::MatMul(w, row_begin, row_end, x, y, y_stride);
}

}  // namespace nonstop::cpu
