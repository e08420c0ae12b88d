// Packing of quantized GGUF rows into groups of 8 (quant_layout.h), and back to f32.
#pragma once

#include "cpu/generic/quant_layout.h"

namespace nonstop::cpu {

// The layout of a quantized type with kernels, or nullptr.
const QuantLayout* FindQuantLayout(DType dtype);

// Packs `row_count` (1..8) raw rows into one group; missing rows become zeros.
template <bool kByteDot>
void PackGroup(const QuantLayout& layout, const std::byte* raw_rows, uint32_t row_count,
               uint32_t column_count, std::byte* group);

// Columns [begin, begin + count) of one row of a group, bit-equal with DequantizeRow; begin and
// count are multiples of the block length.
template <bool kByteDot>
void UnpackGroupRow(const QuantLayout& layout, const std::byte* group, uint32_t row, uint32_t begin,
                    uint32_t count, float* out);

}  // namespace nonstop::cpu
