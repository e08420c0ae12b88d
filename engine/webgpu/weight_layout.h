// How weights lie in GPU buffers: split in planes, so that what a lane loads is a whole word or
// vec4 of words, and exact, so that a packed weight is the file's weight.
// Rows go in groups of 8 and columns in blocks of 32. A group holds its planes one after another,
// each (8 rows, blocks of a row) of a few bytes a block; so every plane and every group starts at a
// multiple of 16 bytes, and a matrix may be cut between any two groups.
//
//   type                quants           high bits   scales             super-scales (of 256)
//   Q4_0, IQ4_NL        16 bytes a block             f16
//   Q4_1                16                           f16, minimum f16
//   Q5_0                16               4           f16
//   Q5_1                16               4           f16, minimum f16
//   Q8_0                32                           f16
//   Q2_K                8                            4 x 4 bits         f16, minimum f16
//   Q3_K                8                4           2 x i8             f16
//   Q4_K                16                           u8, minimum u8     f16, minimum f16
//   Q5_K                16               4           u8, minimum u8     f16, minimum f16
//   Q6_K                16               8           2 x i8             f16
//   F16, BF16           64
//   F32                 128
//
// Columns of a block go in 8 groups g of 4, k being the column in the group:
//   4 bits: byte k of word g % 4, low nibble where g < 4; 1 bit: bit g of byte k; 2 bits: bits
//   2 (g % 4) of byte k in word g / 4; 8 bits: byte k of word g; 16 and 32 bits: in order.
// Missing rows of the last group and missing columns of the last block are zeros.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tensor/dtype.h"
#include "webgpu/kernel_source.h"

namespace nonstop {

inline constexpr uint32_t kGpuGroupRows = 8;
inline constexpr uint32_t kGpuBlockColumns = 32;

struct WeightPlanes {
  DType dtype;
  std::string_view name;  // in kernels: load_block_q4_1
  std::string_view file;  // where it is: dtype_q4_1
  // Bytes of a block of 32 columns, but for super-scales: of 256.
  uint32_t quant_bytes;
  uint32_t high_bytes;
  uint32_t scale_bytes;
  uint32_t super_bytes;
};

const WeightPlanes& GetWeightPlanes(DType dtype);  // of a computed type

inline uint32_t GpuBlockCount(uint32_t column_count) {
  return (column_count + kGpuBlockColumns - 1) / kGpuBlockColumns;
}
// Of 8 rows; a multiple of 16.
uint32_t GpuGroupSizeBytes(DType dtype, uint32_t column_count);
uint64_t GpuMatrixSizeBytes(DType dtype, uint32_t row_count, uint32_t column_count);

// Packs `row_count` GGUF rows into whole groups at `packed`: what the pack kernels must write.
void PackGpuRows(DType dtype, const std::byte* raw_rows, uint32_t row_count, uint32_t column_count,
                 std::byte* packed);

// The kernel that packs rows of a type; binds kRaw, kPacked, kParams.
KernelSource MakePackKernel(DType dtype);
inline constexpr uint32_t kPackWorkgroupWords = 64;

// Its parameters, for whole groups from `packed_begin` (in words) on.
std::array<uint32_t, 16> PackParams(DType dtype, uint32_t column_count, uint32_t row_count,
                                    uint32_t raw_begin_bytes, uint32_t packed_begin);

}  // namespace nonstop
