#include "webgpu/weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/bytes.h"
#include "cpu/matmul_testing.h"
#include "webgpu/weight_layout.h"

namespace nonstop {
namespace {

// A GPU with memory, whose only kernels are the pack kernels, in C++.
class PackingGpu final : public Gpu {
 public:
  explicit PackingGpu(const GpuLimits& limits = {}) { adapter_.limits = limits; }

  const GpuAdapter& adapter() const override { return adapter_; }
  Result<GpuBufferId> CreateBuffer(GpuBufferUsage, uint64_t size_bytes) override {
    EXPECT_LE(size_bytes, adapter_.limits.max_buffer_size_bytes);
    buffers_.emplace_back(size_bytes, std::byte{0xee});
    return static_cast<GpuBufferId>(buffers_.size() - 1);
  }
  void DestroyBuffer(GpuBufferId buffer) override { buffers_[buffer].clear(); }
  Result<GpuPipelineId> CreatePipeline(const GpuPipelineSource& source) override {
    pipeline_names_.emplace_back(source.name);
    return static_cast<GpuPipelineId>(pipeline_names_.size() - 1);
  }
  GpuPipelineState pipeline_state(GpuPipelineId) const override { return state_; }
  Result<GpuBindGroupId> CreateBindGroup(GpuPipelineId,
                                         std::span<const GpuBufferBinding> bindings) override {
    groups_.emplace_back(bindings.begin(), bindings.end());
    return static_cast<GpuBindGroupId>(groups_.size() - 1);
  }
  void DestroyBindGroup(GpuBindGroupId) override {}
  Status Upload(GpuBufferId buffer, uint64_t offset_bytes,
                std::span<const std::byte> bytes) override {
    EXPECT_EQ(offset_bytes % 4, 0u);
    EXPECT_EQ(bytes.size() % 4, 0u);
    EXPECT_LE(offset_bytes + bytes.size(), buffers_[buffer].size());
    std::copy(bytes.begin(), bytes.end(),
              buffers_[buffer].begin() + static_cast<ptrdiff_t>(offset_bytes));
    return {};
  }
  Result<GpuTicket> Submit(std::span<const GpuDispatch> dispatches,
                           std::span<const GpuReadback>) override {
    for (const GpuDispatch& dispatch : dispatches) Pack(dispatch);
    return ++submit_count_;
  }
  GpuTicket last_done() const override { return submit_count_; }
  Status status() const override { return {}; }

  void set_state(GpuPipelineState state) { state_ = state; }
  const std::vector<std::byte>& buffer(GpuBufferId id) const { return buffers_[id]; }
  uint32_t submit_count() const { return submit_count_; }

 private:
  void Pack(const GpuDispatch& dispatch) {
    ASSERT_EQ(state_, GpuPipelineState::kReady);
    const std::vector<GpuBufferBinding>& group = groups_[dispatch.bind_group];
    const std::byte* params = buffers_[group[2].buffer].data();
    const auto word = [&](size_t i) { return LoadLe<uint32_t>(params + 4 * i); };
    for (DType dtype : cpu::kComputedTypes) {
      if ("pack_" + std::string(GetWeightPlanes(dtype).name) !=
          pipeline_names_[dispatch.pipeline]) {
        continue;
      }
      EXPECT_EQ(word(3), GpuMatrixSizeBytes(dtype, word(2), word(4)) / 4);
      EXPECT_GE(dispatch.workgroups[0] * dispatch.workgroups[1] * kPackWorkgroupWords, word(3));
      PackGpuRows(dtype, buffers_[group[0].buffer].data() + word(0), word(2), word(4),
                  buffers_[group[1].buffer].data() + size_t{word(1)} * 4);
    }
  }

  GpuAdapter adapter_;
  GpuPipelineState state_ = GpuPipelineState::kReady;
  std::vector<std::vector<std::byte>> buffers_;
  std::vector<std::string> pipeline_names_;
  std::vector<std::vector<GpuBufferBinding>> groups_;
  uint32_t submit_count_ = 0;
};

GgufTensor MatrixTensor(std::string name, DType dtype, uint32_t row_count, uint32_t column_count) {
  return {.name = std::move(name),
          .dtype = dtype,
          .dimension_count = 2,
          .dimensions = {column_count, row_count, 1, 1},
          .offset_bytes = 0,
          .size_bytes = row_count * RowSizeBytes(dtype, column_count),
          .file_index = 0};
}

Status PushInPieces(GpuWeights& weights, const GgufTensor& tensor, std::span<const std::byte> raw,
                    size_t piece_bytes) {
  for (size_t at = 0; at < raw.size(); at += piece_bytes) {
    TRY(weights.Push({&tensor, at, raw.subspan(at, std::min(piece_bytes, raw.size() - at))}));
  }
  return {};
}

// What lies in the windows for `matrix`, its parts one after the other.
std::vector<std::byte> PackedBytes(const PackingGpu& gpu, const GpuMatrix& matrix) {
  std::vector<std::byte> bytes;
  for (const GpuMatrixPart& part : matrix.parts) {
    const std::byte* begin = gpu.buffer(part.window).data() + size_t{part.base} * 16;
    bytes.insert(bytes.end(), begin,
                 begin + GpuMatrixSizeBytes(matrix.dtype, part.row_count, matrix.column_count));
  }
  return bytes;
}

std::vector<std::byte> Packed(DType dtype, std::span<const std::byte> raw, uint32_t row_count,
                              uint32_t column_count) {
  std::vector<std::byte> bytes(GpuMatrixSizeBytes(dtype, row_count, column_count));
  PackGpuRows(dtype, raw.data(), row_count, column_count, bytes.data());
  return bytes;
}

TEST(GpuWeights, PacksPiecesOfAnySize) {
  cpu::TestRandom random(1);
  for (DType dtype : cpu::kComputedTypes) {
    const uint32_t columns = std::max(GetDType(dtype).block_length, 32u) * 3;
    for (const size_t piece_bytes : {size_t{1}, size_t{7}, size_t{1021}, size_t{1} << 20}) {
      PackingGpu gpu;
      GpuWeights weights(&gpu);
      const GgufTensor tensor = MatrixTensor("w", dtype, 37, columns);
      const std::vector<std::byte> raw = cpu::RandomRows(dtype, 37, columns, random);
      weights.ReserveMemory({&tensor, 1});
      ASSERT_TRUE(PushInPieces(weights, tensor, raw, piece_bytes).ok());
      const GpuMatrix* matrix = weights.FindMatrix("w");
      ASSERT_NE(matrix, nullptr);
      EXPECT_EQ(PackedBytes(gpu, *matrix), Packed(dtype, raw, 37, columns))
          << GetDType(dtype).name << " in pieces of " << piece_bytes;
    }
  }
}

TEST(GpuWeights, StagesAMatrixThatIsLargerThanItsBuffer) {
  PackingGpu gpu;
  GpuWeights weights(&gpu);
  cpu::TestRandom random(2);
  const GgufTensor tensor = MatrixTensor("w", DType::kQ4_0, 5000, 4096);
  ASSERT_GT(tensor.size_bytes, 2 * uint64_t{GpuWeights::kStagingBytes});
  const std::vector<std::byte> raw = cpu::RandomRows(DType::kQ4_0, 5000, 4096, random);
  ASSERT_TRUE(PushInPieces(weights, tensor, raw, 999'983).ok());
  EXPECT_EQ(gpu.submit_count(), 3u);
  EXPECT_EQ(PackedBytes(gpu, *weights.FindMatrix("w")), Packed(DType::kQ4_0, raw, 5000, 4096));
}

TEST(GpuWeights, CutsAMatrixThatIsLargerThanAWindow) {
  PackingGpu gpu({.max_storage_binding_size_bytes = 20'000});
  GpuWeights weights(&gpu);
  cpu::TestRandom random(3);
  const GgufTensor first = MatrixTensor("first", DType::kF32, 9, 64);
  const GgufTensor second = MatrixTensor("second", DType::kQ8_0, 300, 96);
  const std::vector<std::byte> first_raw = cpu::RandomRows(DType::kF32, 9, 64, random);
  const std::vector<std::byte> raw = cpu::RandomRows(DType::kQ8_0, 300, 96, random);
  ASSERT_TRUE(PushInPieces(weights, first, first_raw, 100).ok());
  ASSERT_TRUE(PushInPieces(weights, second, raw, 100).ok());
  const GpuMatrix& matrix = *weights.FindMatrix("second");
  // 24 groups of 816 bytes fill a window.
  ASSERT_EQ(matrix.parts.size(), 2u);
  EXPECT_EQ(matrix.parts[0].row_count, 192u);
  EXPECT_EQ(matrix.parts[1].row_begin, 192u);
  EXPECT_EQ(matrix.parts[1].row_count, 108u);
  EXPECT_EQ(PackedBytes(gpu, matrix), Packed(DType::kQ8_0, raw, 300, 96));
  EXPECT_EQ(PackedBytes(gpu, *weights.FindMatrix("first")), Packed(DType::kF32, first_raw, 9, 64));

  const GpuMatrix slice = SliceRows(matrix, 184, 16);
  ASSERT_EQ(slice.parts.size(), 2u);
  EXPECT_EQ(slice.parts[1].row_begin, 8u);
  const size_t row_bytes = RowSizeBytes(DType::kQ8_0, 96);
  EXPECT_EQ(PackedBytes(gpu, slice),
            Packed(DType::kQ8_0, std::span(raw).subspan(184 * row_bytes), 16, 96));
}

TEST(GpuWeights, WaitsForItsKernels) {
  PackingGpu gpu;
  gpu.set_state(GpuPipelineState::kPending);
  GpuWeights weights(&gpu);
  cpu::TestRandom random(4);
  const GgufTensor a = MatrixTensor("a", DType::kQ4_1, 24, 64);
  const GgufTensor b = MatrixTensor("b", DType::kQ6_K, 11, 256);
  const std::vector<std::byte> a_raw = cpu::RandomRows(DType::kQ4_1, 24, 64, random);
  const std::vector<std::byte> b_raw = cpu::RandomRows(DType::kQ6_K, 11, 256, random);
  ASSERT_TRUE(PushInPieces(weights, a, a_raw, 50).ok());
  ASSERT_TRUE(PushInPieces(weights, b, b_raw, 50).ok());
  ASSERT_TRUE(weights.Finish().ok());
  EXPECT_FALSE(*weights.PackPending());
  gpu.set_state(GpuPipelineState::kReady);
  EXPECT_TRUE(*weights.PackPending());
  EXPECT_EQ(PackedBytes(gpu, *weights.FindMatrix("a")), Packed(DType::kQ4_1, a_raw, 24, 64));
  EXPECT_EQ(PackedBytes(gpu, *weights.FindMatrix("b")), Packed(DType::kQ6_K, b_raw, 11, 256));
}

TEST(GpuWeights, TellsAKernelThatDoesNotCompile) {
  PackingGpu gpu;
  gpu.set_state(GpuPipelineState::kFailed);
  GpuWeights weights(&gpu);
  cpu::TestRandom random(5);
  const GgufTensor tensor = MatrixTensor("w", DType::kQ4_1, 8, 64);
  const Status status =
      PushInPieces(weights, tensor, cpu::RandomRows(DType::kQ4_1, 8, 64, random), 1000);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kBackendFailed);
}

TEST(GpuWeights, RefusesWhatIsNotFiniteByTensorAndRow) {
  cpu::TestRandom random(6);
  for (const size_t piece_bytes : {size_t{5}, size_t{4096}}) {
    PackingGpu gpu;
    GpuWeights weights(&gpu);
    const GgufTensor tensor = MatrixTensor("w", DType::kQ4_0, 20, 64);
    std::vector<std::byte> raw = cpu::RandomRows(DType::kQ4_0, 20, 64, random);
    StoreLe(raw.data() + 13 * 36 + 18, uint16_t{0x7c00});
    const Status status = PushInPieces(weights, tensor, raw, piece_bytes);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, ErrorCode::kBadWeights);
    EXPECT_EQ(status.error().message, "Tensor \"w\" holds NaN or infinity (row 13 of type Q4_0).");
  }
}

TEST(GpuWeights, KeepsVectorsInOneBuffer) {
  PackingGpu gpu;
  GpuWeights weights(&gpu);
  GgufTensor tensor = MatrixTensor("norm", DType::kF32, 1, 3);
  tensor.dimension_count = 1;
  const std::vector<float> norm = {1.5f, -2.0f, 3.0f};
  ASSERT_TRUE(PushInPieces(weights, tensor, std::as_bytes(std::span(norm)), 5).ok());
  const std::vector<float> rope = {0.25f, 0.5f};
  weights.AddVector("rope", rope);
  ASSERT_TRUE(weights.Finish().ok());
  EXPECT_EQ(*weights.FindVector("norm"), norm);
  ASSERT_EQ(weights.FindVectorOffset("norm"), 0u);
  ASSERT_EQ(weights.FindVectorOffset("rope"), 4u);
  EXPECT_EQ(weights.FindVectorOffset("absent"), std::nullopt);
  const std::vector<std::byte>& bytes = gpu.buffer(weights.vectors());
  EXPECT_EQ(LoadLe<float>(bytes.data() + 8), 3.0f);
  EXPECT_EQ(LoadLe<float>(bytes.data() + 16), 0.25f);
  EXPECT_EQ(weights.vectors_size_bytes(), 32u);

  std::vector<float> bad = norm;
  bad[1] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(PushInPieces(weights, tensor, std::as_bytes(std::span(bad)), 12).error().code,
            ErrorCode::kBadWeights);
}

}  // namespace
}  // namespace nonstop
