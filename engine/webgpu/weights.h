// The model's weights on the GPU: packed from raw GGUF bytes by compute kernels while the file
// streams in. Matrices lie in windows, buffers of at most one binding's size; vectors (norms,
// biases) and RoPE frequencies in one f32 buffer.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "port/gpu.h"
#include "tensor/dtype.h"

namespace nonstop {

// Rows of a matrix that lie in one window.
struct GpuMatrixPart {
  GpuBufferId window = 0;
  uint32_t base = 0;       // where its first group of rows starts, in vec4s of the window
  uint32_t row_begin = 0;  // in the matrix; a multiple of 8
  uint32_t row_count = 0;
};

struct GpuMatrix {
  DType dtype = DType::kF32;
  uint32_t row_count = 0;
  uint32_t column_count = 0;
  std::vector<GpuMatrixPart> parts;  // one, unless the matrix is larger than a window
};

// A range of rows as a matrix; row_begin is a multiple of 8.
GpuMatrix SliceRows(const GpuMatrix& matrix, uint32_t row_begin, uint32_t row_count);

}  // namespace nonstop
