// The tensor type table. Ids 4, 5, 31-33 and 36-38 were removed from GGUF and stay unknown.
// Sources: enum ggml_type in ggml/include/ggml.h, block structs in ggml/src/ggml-common.h.
#include "tensor/dtype.h"

#include "base/check.h"

namespace nonstop {
namespace {

constexpr bool kComputed = true;
constexpr bool kKnown = false;

// Ascending ids. Block sizes are spelled as the sum of the block's fields, in their order.
constexpr DTypeInfo kTable[] = {
    {DType::kF32, "F32", 1, 4, kComputed},
    {DType::kF16, "F16", 1, 2, kComputed},
    {DType::kQ4_0, "Q4_0", 32, 2 + 16, kComputed},
    {DType::kQ4_1, "Q4_1", 32, 2 + 2 + 16, kComputed},
    {DType::kQ5_0, "Q5_0", 32, 2 + 4 + 16, kComputed},
    {DType::kQ5_1, "Q5_1", 32, 2 + 2 + 4 + 16, kComputed},
    {DType::kQ8_0, "Q8_0", 32, 2 + 32, kComputed},
    {DType::kQ8_1, "Q8_1", 32, 2 + 2 + 32, kKnown},
    {DType::kQ2_K, "Q2_K", 256, 16 + 64 + 2 + 2, kComputed},
    {DType::kQ3_K, "Q3_K", 256, 32 + 64 + 12 + 2, kComputed},
    {DType::kQ4_K, "Q4_K", 256, 2 + 2 + 12 + 128, kComputed},
    {DType::kQ5_K, "Q5_K", 256, 2 + 2 + 12 + 32 + 128, kComputed},
    {DType::kQ6_K, "Q6_K", 256, 128 + 64 + 16 + 2, kComputed},
    {DType::kQ8_K, "Q8_K", 256, 4 + 256 + 32, kKnown},
    {DType::kIQ2_XXS, "IQ2_XXS", 256, 2 + 64, kKnown},
    {DType::kIQ2_XS, "IQ2_XS", 256, 2 + 64 + 8, kKnown},
    {DType::kIQ3_XXS, "IQ3_XXS", 256, 2 + 96, kKnown},
    {DType::kIQ1_S, "IQ1_S", 256, 2 + 32 + 16, kKnown},
    {DType::kIQ4_NL, "IQ4_NL", 32, 2 + 16, kComputed},
    {DType::kIQ3_S, "IQ3_S", 256, 2 + 64 + 8 + 32 + 4, kKnown},
    {DType::kIQ2_S, "IQ2_S", 256, 2 + 64 + 8 + 8, kKnown},
    {DType::kIQ4_XS, "IQ4_XS", 256, 2 + 2 + 4 + 128, kKnown},
    {DType::kI8, "I8", 1, 1, kKnown},
    {DType::kI16, "I16", 1, 2, kKnown},
    {DType::kI32, "I32", 1, 4, kKnown},
    {DType::kI64, "I64", 1, 8, kKnown},
    {DType::kF64, "F64", 1, 8, kKnown},
    {DType::kIQ1_M, "IQ1_M", 256, 32 + 16 + 8, kKnown},
    {DType::kBF16, "BF16", 1, 2, kComputed},
    {DType::kTQ1_0, "TQ1_0", 256, 48 + 4 + 2, kKnown},
    {DType::kTQ2_0, "TQ2_0", 256, 64 + 2, kKnown},
    {DType::kMXFP4, "MXFP4", 32, 1 + 16, kKnown},
    {DType::kNVFP4, "NVFP4", 64, 4 + 32, kKnown},
    {DType::kQ1_0, "Q1_0", 128, 2 + 16, kKnown},
    {DType::kQ2_0, "Q2_0", 64, 2 + 16, kKnown},
};

}  // namespace

const DTypeInfo* FindDType(uint32_t type_id) {
  for (const DTypeInfo& row : kTable) {
    if (static_cast<uint32_t>(row.dtype) == type_id) return &row;
  }
  return nullptr;
}

const DTypeInfo& GetDType(DType dtype) {
  const DTypeInfo* row = FindDType(static_cast<uint32_t>(dtype));
  CHECK(row != nullptr);
  return *row;
}

uint64_t RowSizeBytes(DType dtype, uint64_t column_count) {
  const DTypeInfo& row = GetDType(dtype);
  CHECK(column_count % row.block_length == 0);
  return column_count / row.block_length * row.block_size_bytes;
}

std::span<const DTypeInfo> AllDTypes() { return kTable; }

}  // namespace nonstop
