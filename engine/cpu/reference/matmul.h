// The oracle of the matrix product: GGUF rows as they are, dequantized, summed in f64.
#pragma once

#include "cpu/matrix.h"

namespace nonstop::cpu::reference {

// As cpu::MatMul, for kRaw matrices only. 8-bit activations are taken back to f32 first, so what
// remains different from cpu::MatMul is the order of f32 sums.
void MatMul(const Matrix& w, uint32_t row_begin, uint32_t row_end, const Activations& x, float* y,
            size_t y_stride);

}  // namespace nonstop::cpu::reference
