// kInterleaved8 matrices of every computed type: sizes, packing of row ranges, and rows back to
// f32. kByteDot chooses between the packings of the two inner products (quant_layout.h); both have
// the same sizes. Float types hold, for each column, the values of the group's 8 rows.
#pragma once

#include "cpu/matrix.h"

namespace nonstop::cpu {

uint64_t InterleavedGroupSizeBytes(DType dtype, uint32_t column_count);

// As PackRows (matrix.h).
template <bool kByteDot>
void PackInterleaved(DType dtype, const std::byte* raw_rows, uint32_t row_begin, uint32_t row_count,
                     uint32_t column_count, std::byte* packed);

// Columns [begin, begin + count) of a row, bit-equal with DequantizeRow; begin and count are
// multiples of the block length.
template <bool kByteDot>
void UnpackInterleaved(const Matrix& matrix, uint32_t row, uint32_t begin, uint32_t count,
                       float* out);

}  // namespace nonstop::cpu
