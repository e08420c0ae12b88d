// Quantized rows to f32, one block at a time in plain loops: the oracle that every kernel is
// compared with. Bit-equal with ggml's dequantize_row_* (ggml/src/ggml-quants.c): f32 arithmetic
// in the same order, no fused multiply-add.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace nonstop {

// Writes `column_count` floats from RowSizeBytes(dtype, column_count) bytes at `blocks`, which
// need no alignment. `dtype` must be computed, `column_count` a multiple of its block length.
// Any bytes are valid input; scales that are NaN or infinite come through as such.
void DequantizeRow(DType dtype, const std::byte* blocks, uint32_t column_count, float* out);

// The sixteen levels of IQ4_NL (kvalues_iq4nl in ggml-common.h).
inline constexpr int8_t kIq4NlLevels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                            1,    13,   25,  38,  53,  69,  89,  113};

// The 6-bit scale and minimum of sub-block `index` (0..7) in the 12 scale bytes of Q4_K and Q5_K.
struct KScaleMin {
  uint8_t scale;
  uint8_t minimum;
};
KScaleMin UnpackQ4KScaleMin(const uint8_t* scales, uint32_t index);

// The 6-bit scale of sub-block `index` (0..15) in the 12 scale bytes of Q3_K, from -32 to 31.
int32_t UnpackQ3KScale(const uint8_t* scales, uint32_t index);

}  // namespace nonstop
