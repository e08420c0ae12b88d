// The table against gguf-py's and ggml's numbers.
#include "tensor/dtype.h"

#include <gtest/gtest.h>

#include <string>

namespace nonstop {
namespace {

struct Wanted {
  uint32_t id;
  const char* name;
  uint32_t block_length;
  uint32_t block_size_bytes;
};

// GGMLQuantizationType and GGML_QUANT_SIZES of gguf-py 0.19.0, as numbers. Q8_1 (never in files;
// gguf-py keeps an older size) and Q2_0: block_q8_1 and block_q2_0 in ggml-common.h.
constexpr Wanted kWanted[] = {
    {0, "F32", 1, 4},         {1, "F16", 1, 2},         {2, "Q4_0", 32, 18},
    {3, "Q4_1", 32, 20},      {6, "Q5_0", 32, 22},      {7, "Q5_1", 32, 24},
    {8, "Q8_0", 32, 34},      {9, "Q8_1", 32, 36},      {10, "Q2_K", 256, 84},
    {11, "Q3_K", 256, 110},   {12, "Q4_K", 256, 144},   {13, "Q5_K", 256, 176},
    {14, "Q6_K", 256, 210},   {15, "Q8_K", 256, 292},   {16, "IQ2_XXS", 256, 66},
    {17, "IQ2_XS", 256, 74},  {18, "IQ3_XXS", 256, 98}, {19, "IQ1_S", 256, 50},
    {20, "IQ4_NL", 32, 18},   {21, "IQ3_S", 256, 110},  {22, "IQ2_S", 256, 82},
    {23, "IQ4_XS", 256, 136}, {24, "I8", 1, 1},         {25, "I16", 1, 2},
    {26, "I32", 1, 4},        {27, "I64", 1, 8},        {28, "F64", 1, 8},
    {29, "IQ1_M", 256, 56},   {30, "BF16", 1, 2},       {34, "TQ1_0", 256, 54},
    {35, "TQ2_0", 256, 66},   {39, "MXFP4", 32, 17},    {40, "NVFP4", 64, 36},
    {41, "Q1_0", 128, 18},    {42, "Q2_0", 64, 18},
};

TEST(DType, TableEqualsGguf) {
  ASSERT_EQ(AllDTypes().size(), std::size(kWanted));
  for (size_t i = 0; i < std::size(kWanted); ++i) {
    const Wanted& wanted = kWanted[i];
    const DTypeInfo* info = FindDType(wanted.id);
    ASSERT_NE(info, nullptr) << wanted.name;
    EXPECT_EQ(info, &AllDTypes()[i]);
    EXPECT_STREQ(info->name, wanted.name);
    EXPECT_EQ(info->block_length, wanted.block_length) << wanted.name;
    EXPECT_EQ(info->block_size_bytes, wanted.block_size_bytes) << wanted.name;
  }
}

TEST(DType, RemovedAndFutureIdsAreUnknown) {
  for (const uint32_t id : {4u, 5u, 31u, 32u, 33u, 36u, 37u, 38u, 43u, 1000u, 0xffffffffu}) {
    EXPECT_EQ(FindDType(id), nullptr) << id;
  }
}

TEST(DType, ComputedTypesAreThoseOfTheReadme) {
  std::string computed;
  for (const DTypeInfo& info : AllDTypes()) {
    if (info.is_computed) computed += std::string(info.name) + " ";
  }
  EXPECT_EQ(computed, "F32 F16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL BF16 ");
}

TEST(DType, RowSizeCountsBlocks) {
  EXPECT_EQ(RowSizeBytes(DType::kQ4_1, 576), 576u / 32 * 20);
  EXPECT_EQ(RowSizeBytes(DType::kQ6_K, 512), 420u);
  EXPECT_EQ(RowSizeBytes(DType::kF32, uint64_t{1} << 40), uint64_t{1} << 42);
  EXPECT_EQ(RowSizeBytes(DType::kQ8_0, 0), 0u);
}

}  // namespace
}  // namespace nonstop
