#include "webgpu/weights.h"

#include <algorithm>

#include "base/check.h"
#include "webgpu/weight_layout.h"

namespace nonstop {

GpuMatrix SliceRows(const GpuMatrix& matrix, uint32_t row_begin, uint32_t row_count) {
  CHECK(row_begin % kGpuGroupRows == 0 && row_begin + row_count <= matrix.row_count);
  GpuMatrix slice = {matrix.dtype, row_count, matrix.column_count, {}};
  const uint32_t group_vec4s = GpuGroupSizeBytes(matrix.dtype, matrix.column_count) / 16;
  for (const GpuMatrixPart& part : matrix.parts) {
    const uint32_t begin = std::max(row_begin, part.row_begin);
    const uint32_t end = std::min(row_begin + row_count, part.row_begin + part.row_count);
    if (begin >= end) continue;
    const uint32_t groups = (begin - part.row_begin) / kGpuGroupRows;
    slice.parts.push_back(
        {part.window, part.base + groups * group_vec4s, begin - row_begin, end - begin});
  }
  return slice;
}

}  // namespace nonstop
