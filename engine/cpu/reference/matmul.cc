// Plain loops; see matmul.h. A row goes through a buffer of 256 weights: every block length divides
// it, and no memory is allocated.
#include "cpu/reference/matmul.h"

#include <algorithm>

#include "base/check.h"
#include "tensor/dequantize.h"

namespace nonstop::cpu::reference {
namespace {

constexpr uint32_t kChunk = 256;

double DotRow(const Matrix& w, const std::byte* row, const Activations& x, const std::byte* x_row) {
  float weights[kChunk], values[kChunk];
  double sum = 0;
  for (uint32_t begin = 0; begin < w.column_count; begin += kChunk) {
    const uint32_t count = std::min(kChunk, w.column_count - begin);
    DequantizeRow(w.dtype, row + RowSizeBytes(w.dtype, begin), count, weights);
    UnpackActivations(x.type, x_row, begin, count, values);
    for (uint32_t i = 0; i < count; ++i) sum += double{weights[i]} * values[i];
  }
  return sum;
}

}  // namespace

void MatMul(const Matrix& w, uint32_t row_begin, uint32_t row_end, const Activations& x, float* y,
            size_t y_stride) {
  CHECK(w.format == PackedFormat::kRaw && w.column_count == x.column_count);
  CHECK(row_begin <= row_end && row_end <= w.row_count);
  const uint64_t row_size_bytes = RowSizeBytes(w.dtype, w.column_count);
  const size_t x_row_size_bytes = ActivationRowSizeBytes(x.type, x.column_count);
  for (uint32_t t = 0; t < x.row_count; ++t) {
    for (uint32_t row = row_begin; row < row_end; ++row) {
      y[t * y_stride + (row - row_begin)] = static_cast<float>(
          DotRow(w, w.data + row * row_size_bytes, x, x.data + t * x_row_size_bytes));
    }
  }
}

}  // namespace nonstop::cpu::reference
