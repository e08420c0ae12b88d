// Finds NaN and infinity in weights as they stream in. In quantized types only the scales and
// minimums are floats; the codes cannot be wrong.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace nonstop {

// Index of the first block that holds a number which is not finite, or -1. Computed types only.
int64_t FindNonFinite(DType dtype, const std::byte* blocks, uint64_t block_count);

}  // namespace nonstop
