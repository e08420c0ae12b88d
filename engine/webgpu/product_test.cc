#include "webgpu/product.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace nonstop {
namespace {

constexpr StateShape kState = {.max_rows = 8, .max_pages = 16};

GpuMatrix Whole(DType dtype, uint32_t row_count, uint32_t column_count) {
  return {dtype, row_count, column_count, {{0, 5, 0, row_count}}};
}

uint32_t ConstantOf(const KernelSource& kernel, const std::string& name) {
  const size_t at = kernel.wgsl.find("const " + name + " = ");
  EXPECT_NE(at, std::string::npos) << name;
  return static_cast<uint32_t>(std::atoi(kernel.wgsl.c_str() + at + name.size() + 9));
}

// What matvec.wgsl or matvec_one.wgsl declares, computed from its constants.
uint32_t WorkgroupBytes(const KernelSource& kernel) {
  const uint32_t tokens = ConstantOf(kernel, "TOKENS"), lanes = ConstantOf(kernel, "LANES");
  const uint32_t workgroup = ConstantOf(kernel, "WORKGROUP");
  const uint32_t outputs = workgroup / lanes * tokens;
  const uint32_t line = ConstantOf(kernel, "LINE");
  const uint32_t stride = ConstantOf(kernel, "CHUNK") | 1;
  const uint32_t floats = tokens * 8 * stride * 4 +
                          ConstantOf(kernel, "MATRICES") * outputs * line + workgroup +
                          tokens * line;
  return floats * 4;
}

TEST(Product, FitsWorkgroupMemoryWhateverTheShape) {
  for (const uint32_t columns : {1u, 32u, 64u, 160u, 576u, 896u, 1536u, 4096u, 18944u, 65536u}) {
    for (const uint32_t row_limit : {1u, 2u, 3u, 4u, 8u}) {
      const GpuMatrix matrices[] = {Whole(DType::kF32, 64, columns),
                                    Whole(DType::kF32, 64, columns),
                                    Whole(DType::kF32, 64, columns)};
      for (const ProductKind kind :
           {ProductKind::kPlain, ProductKind::kGateUp, ProductKind::kQkvRows}) {
        const size_t count = kind == ProductKind::kPlain ? 1 : kind == ProductKind::kGateUp ? 2 : 3;
        for (const bool uses_subgroups : {false, true}) {
          const auto dispatches = LowerProduct({.kind = kind,
                                                .matrices = std::span(matrices).first(count),
                                                .row_limit = row_limit,
                                                .state = kState,
                                                .uses_subgroups = uses_subgroups});
          ASSERT_TRUE(dispatches.ok());
          const KernelSource kernel = MakeProductKernel((*dispatches)[0].shape);
          EXPECT_LE(WorkgroupBytes(kernel), 16'384u) << columns << " " << row_limit;
          EXPECT_GE(ConstantOf(kernel, "TOKENS"), row_limit);
        }
      }
    }
  }
}

TEST(Product, TakesAPartOfACutMatrixADispatch) {
  const GpuMatrix head = {DType::kQ8_0, 1000, 640, {{7, 0, 0, 600}, {8, 32, 600, 400}}};
  const auto dispatches = LowerProduct({.matrices = {&head, 1}, .state = kState, .y_width = 1000});
  ASSERT_TRUE(dispatches.ok());
  ASSERT_EQ(dispatches->size(), 2u);
  const ProductDispatch& second = (*dispatches)[1];
  EXPECT_EQ(second.windows, std::vector<GpuBufferId>{8});
  EXPECT_EQ(second.params[4], 32u);   // base
  EXPECT_EQ(second.params[7], 600u);  // first column of y
  EXPECT_EQ(second.params[8], 400u);  // rows
  EXPECT_EQ(second.shape, (*dispatches)[0].shape) << "parts share a pipeline";
}

TEST(Product, BindsAWindowOnce) {
  GpuMatrix gate = Whole(DType::kQ4_1, 64, 64), up = gate;
  const GpuMatrix same[] = {gate, up};
  const auto one = LowerProduct({.kind = ProductKind::kGateUp, .matrices = same, .state = kState});
  EXPECT_EQ((*one)[0].windows.size(), 1u);
  up.parts[0].window = 3;
  const GpuMatrix different[] = {gate, up};
  const auto two =
      LowerProduct({.kind = ProductKind::kGateUp, .matrices = different, .state = kState});
  EXPECT_EQ((*two)[0].windows.size(), 2u);
  EXPECT_EQ((*two)[0].shape.slots[1], 1u);
}

TEST(Product, RefusesQkvOfACutMatrix) {
  GpuMatrix q = Whole(DType::kF32, 64, 64);
  q.parts = {{0, 0, 0, 32}, {1, 0, 32, 32}};
  const GpuMatrix matrices[] = {q, Whole(DType::kF32, 64, 64), Whole(DType::kF32, 64, 64)};
  const auto dispatches =
      LowerProduct({.kind = ProductKind::kQkvRows, .matrices = matrices, .state = kState});
  ASSERT_FALSE(dispatches.ok());
  EXPECT_EQ(dispatches.error().code, ErrorCode::kBackendFailed);
}

TEST(Product, TakesAGateAndItsUpThatAreCutAlike) {
  const GpuMatrix gate = {DType::kQ8_0, 64, 64, {{0, 0, 0, 40}, {1, 0, 40, 24}}};
  GpuMatrix up = gate;
  const GpuMatrix alike[] = {gate, up};
  const auto two = LowerProduct({.kind = ProductKind::kGateUp, .matrices = alike, .state = kState});
  ASSERT_TRUE(two.ok());
  EXPECT_EQ(two->size(), 2u);
  up.parts = {{0, 0, 0, 48}, {1, 0, 48, 16}};
  const GpuMatrix unlike[] = {gate, up};
  EXPECT_FALSE(
      LowerProduct({.kind = ProductKind::kGateUp, .matrices = unlike, .state = kState}).ok());
}

TEST(Product, SpreadsManyWorkgroupsOverTwoDimensions) {
  const GpuMatrix head = Whole(DType::kQ8_0, 4'000'000, 32);
  const auto dispatches = LowerProduct({.matrices = {&head, 1}, .state = kState});
  const auto workgroups = (*dispatches)[0].Workgroups(1);
  EXPECT_LE(workgroups[0], 65'535u);
  EXPECT_GT(workgroups[1], 1u);
  EXPECT_GE(workgroups[0] * workgroups[1], 4'000'000u / 16);  // of four lanes and 64 invocations
}

TEST(Embed, BindsThreeWindowsADispatch) {
  GpuMatrix table = {DType::kQ8_0, 80, 64, {}};
  for (uint32_t i = 0; i < 5; ++i) table.parts.push_back({i, 10 * i, 16 * i, 16});
  const auto dispatches = LowerEmbed({.table = &table, .state = kState});
  ASSERT_TRUE(dispatches.ok());
  ASSERT_EQ(dispatches->size(), 2u);
  EXPECT_EQ((*dispatches)[0].windows, (std::vector<GpuBufferId>{0, 1, 2}));
  EXPECT_EQ((*dispatches)[1].windows, (std::vector<GpuBufferId>{3, 4}));
  EXPECT_EQ((*dispatches)[1].params[4], 48u);
  EXPECT_EQ((*dispatches)[1].params[6], 80u) << "a part that is not there has no rows";
  EXPECT_EQ((*dispatches)[1].params[7], 80u);
}

}  // namespace
}  // namespace nonstop
