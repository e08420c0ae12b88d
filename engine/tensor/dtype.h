// The tensor types of GGUF files: every type of ggml's table by name and block layout, and which of
// them we compute with. Ids, block lengths and block sizes: ggml/include/ggml.h, ggml-common.h.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace nonstop {

// Values are the file's type ids (GGUF_TYPE in the specification: `ggml_type`).
enum class DType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ8_1 = 9,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kQ8_K = 15,
  kIQ2_XXS = 16,
  kIQ2_XS = 17,
  kIQ3_XXS = 18,
  kIQ1_S = 19,
  kIQ4_NL = 20,
  kIQ3_S = 21,
  kIQ2_S = 22,
  kIQ4_XS = 23,
  kI8 = 24,
  kI16 = 25,
  kI32 = 26,
  kI64 = 27,
  kF64 = 28,
  kIQ1_M = 29,
  kBF16 = 30,
  kTQ1_0 = 34,
  kTQ2_0 = 35,
  kMXFP4 = 39,
  kNVFP4 = 40,
  kQ1_0 = 41,
  kQ2_0 = 42,
};

struct DTypeInfo {
  DType dtype;
  const char* name;           // "Q4_1", as llama.cpp prints it in capitals
  uint32_t block_length;      // weights in one block
  uint32_t block_size_bytes;  // bytes of one block
  bool is_computed;           // has kernels here
};

// The row of `type_id`, or nullptr for an id that is in no table.
const DTypeInfo* FindDType(uint32_t type_id);
const DTypeInfo& GetDType(DType dtype);

// The whole table, ascending by id.
std::span<const DTypeInfo> AllDTypes();

// Bytes of one row of `column_count` weights; column_count must be a multiple of the block length.
uint64_t RowSizeBytes(DType dtype, uint64_t column_count);

}  // namespace nonstop
