// See interleave.h.
#include "cpu/generic/interleave.h"

#include <algorithm>
#include <cstring>

#include "base/bytes.h"
#include "base/check.h"
#include "cpu/generic/quant_pack.h"
#include "tensor/dequantize.h"

namespace nonstop::cpu {
namespace {

template <class Element>
void PackFloatGroup(const std::byte* raw_rows, uint32_t row_count, uint32_t column_count,
                    std::byte* group) {
  for (uint32_t row = 0; row < kGroupRowCount; ++row) {
    std::byte* to = group + row * sizeof(Element);
    for (uint32_t column = 0; column < column_count; ++column) {
      const std::byte* from = raw_rows + (size_t{row} * column_count + column) * sizeof(Element);
      StoreLe(to, row < row_count ? LoadLe<Element>(from) : Element{0});
      to += kGroupRowCount * sizeof(Element);
    }
  }
}

void UnpackFloats(DType dtype, const std::byte* group, uint32_t row, uint32_t begin, uint32_t count,
                  float* out) {
  const uint32_t size_bytes = GetDType(dtype).block_size_bytes;
  const size_t column_size_bytes = size_t{kGroupRowCount} * size_bytes;
  const std::byte* from = group + begin * column_size_bytes + row * size_bytes;
  for (uint32_t i = 0; i < count; ++i, from += column_size_bytes) {
    DequantizeRow(dtype, from, 1, out + i);
  }
}

}  // namespace

uint64_t InterleavedGroupSizeBytes(DType dtype, uint32_t column_count) {
  const QuantLayout* layout = FindQuantLayout(dtype);
  if (layout == nullptr) return kGroupRowCount * RowSizeBytes(dtype, column_count);
  CHECK(column_count % layout->BlockLength() == 0);
  return uint64_t{column_count} / layout->BlockLength() * layout->BlockSizeBytes();
}

template <bool kByteDot>
void PackInterleaved(DType dtype, const std::byte* raw_rows, uint32_t row_begin, uint32_t row_count,
                     uint32_t column_count, std::byte* packed) {
  CHECK(row_begin % kGroupRowCount == 0);
  const QuantLayout* layout = FindQuantLayout(dtype);
  const uint64_t row_size_bytes = RowSizeBytes(dtype, column_count);
  const uint64_t group_size_bytes = InterleavedGroupSizeBytes(dtype, column_count);
  std::byte* group = packed + row_begin / kGroupRowCount * group_size_bytes;
  for (uint32_t done = 0; done < row_count; done += kGroupRowCount, group += group_size_bytes) {
    const std::byte* rows = raw_rows + done * row_size_bytes;
    const uint32_t count = std::min(kGroupRowCount, row_count - done);
    if (layout != nullptr) {
      PackGroup<kByteDot>(*layout, rows, count, column_count, group);
    } else if (GetDType(dtype).block_size_bytes == sizeof(uint16_t)) {
      PackFloatGroup<uint16_t>(rows, count, column_count, group);
    } else {
      CHECK(dtype == DType::kF32);
      PackFloatGroup<uint32_t>(rows, count, column_count, group);
    }
  }
}

template <bool kByteDot>
void UnpackInterleaved(const Matrix& matrix, uint32_t row, uint32_t begin, uint32_t count,
                       float* out) {
  const uint64_t group_size_bytes = InterleavedGroupSizeBytes(matrix.dtype, matrix.column_count);
  const std::byte* group = matrix.data + row / kGroupRowCount * group_size_bytes;
  if (const QuantLayout* layout = FindQuantLayout(matrix.dtype)) {
    UnpackGroupRow<kByteDot>(*layout, group, row % kGroupRowCount, begin, count, out);
  } else {
    UnpackFloats(matrix.dtype, group, row % kGroupRowCount, begin, count, out);
  }
}

template void PackInterleaved<true>(DType, const std::byte*, uint32_t, uint32_t, uint32_t,
                                    std::byte*);
template void PackInterleaved<false>(DType, const std::byte*, uint32_t, uint32_t, uint32_t,
                                     std::byte*);
template void UnpackInterleaved<true>(const Matrix&, uint32_t, uint32_t, uint32_t, float*);
template void UnpackInterleaved<false>(const Matrix&, uint32_t, uint32_t, uint32_t, float*);

}  // namespace nonstop::cpu
