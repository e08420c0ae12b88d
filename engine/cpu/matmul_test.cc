// Every type x target x activation against f64 loops over the dequantized rows. The tolerance has
// two parts: rounding of f32 sums, in proportion to |w| |x|, and for 8-bit activations half a
// quantization step of each block of x.
#include "cpu/matmul_testing.h"

#include <gtest/gtest.h>

#include <limits>

#include "cpu/reference/matmul.h"
#include "tensor/dequantize.h"
#include "tensor/finite.h"

namespace nonstop::cpu {
namespace {

constexpr float kSentinel = -12345.5f;
// Sums of up to 2048 products in f32, some of them of nearly equal parts (a scale's and a
// minimum's).
constexpr double kRounding = 4e-6;

struct Shape {
  uint32_t row_count, column_count, token_count;
};

std::vector<float> Dequantize(DType dtype, std::span<const std::byte> raw, const Shape& shape) {
  std::vector<float> weights(size_t{shape.row_count} * shape.column_count);
  const uint64_t row_size_bytes = RowSizeBytes(dtype, shape.column_count);
  for (uint32_t r = 0; r < shape.row_count; ++r) {
    DequantizeRow(dtype, raw.data() + r * row_size_bytes, shape.column_count,
                  weights.data() + size_t{r} * shape.column_count);
  }
  return weights;
}

struct Expected {
  double value;
  double rounding;      // tolerance of f32 sums
  double quantization;  // tolerance of 8-bit activations
};

Expected Dot(const float* w, const float* x, uint32_t count) {
  double sum = 0, w_squares = 0, x_squares = 0, quantization = 0;
  for (uint32_t begin = 0; begin < count; begin += 32) {
    double largest = 0, magnitudes = 0;
    for (uint32_t k = begin; k < std::min(begin + 32, count); ++k) {
      sum += double{w[k]} * x[k];
      w_squares += double{w[k]} * w[k];
      x_squares += double{x[k]} * x[k];
      largest = std::fmax(largest, std::fabs(x[k]));
      magnitudes += std::fabs(w[k]);
    }
    quantization += magnitudes * largest / 127 * 0.5001;
  }
  return {sum, kRounding * std::sqrt(w_squares * x_squares), quantization};
}

void ExpectProduct(const Target& target, DType dtype, ActivationType type, const Shape& shape) {
  SCOPED_TRACE(testing::Message() << target.name << " " << GetDType(dtype).name << " "
                                  << shape.row_count << "x" << shape.column_count << " tokens "
                                  << shape.token_count << " activation " << static_cast<int>(type));
  TestRandom random(shape.row_count * 7919 + shape.column_count + shape.token_count);
  const auto raw = RandomRows(dtype, shape.row_count, shape.column_count, random);
  const auto weights = Dequantize(dtype, raw, shape);
  const auto x = RandomActivations(size_t{shape.token_count} * shape.column_count, random);
  const PackedRows rows = PackFor(target, dtype, raw, shape.row_count, shape.column_count);
  const PreparedTokens tokens = PrepareFor(target, type, x, shape.column_count);

  const size_t stride = shape.row_count + 3;
  std::vector<float> y(stride * shape.token_count, kSentinel);
  target.matmul(rows.matrix, 0, shape.row_count, tokens.activations, y.data(), stride);

  std::vector<float> seen(shape.column_count);
  for (uint32_t t = 0; t < shape.token_count; ++t) {
    const float* x_row = x.data() + size_t{t} * shape.column_count;
    if (type == ActivationType::kQ8) {
      target.dequantize(tokens.buffer.data() + t * target.q8_row_size_bytes(shape.column_count), 0,
                        shape.column_count, seen.data());
    } else {
      std::copy_n(x_row, shape.column_count, seen.data());
    }
    for (uint32_t r = 0; r < shape.row_count; ++r) {
      const float* w = weights.data() + size_t{r} * shape.column_count;
      const Expected exact = Dot(w, seen.data(), shape.column_count);
      ASSERT_NEAR(y[t * stride + r], exact.value, exact.rounding) << "token " << t << " row " << r;
      if (type != ActivationType::kQ8) continue;
      const Expected true_x = Dot(w, x_row, shape.column_count);
      ASSERT_NEAR(y[t * stride + r], true_x.value, true_x.rounding + true_x.quantization);
    }
    for (size_t r = shape.row_count; r < stride; ++r) ASSERT_EQ(y[t * stride + r], kSentinel);
  }
}

std::vector<Shape> ShapesFor(DType dtype) {
  const uint32_t block = std::max(GetDType(dtype).block_length, 1u);
  std::vector<Shape> shapes;
  for (uint32_t rows : {1u, 5u, 7u, 8u, 11u, 13u}) {
    for (uint32_t tokens : {1u, 2u, 3u, 4u, 5u, 7u, 8u, 13u}) {
      shapes.push_back({rows, block * (1 + 2 * (tokens % 2)), tokens});
    }
  }
  shapes.push_back({64, block, 64});
  for (uint32_t columns : {576u, 1536u, 2048u}) {
    if (columns % block == 0) shapes.push_back({13, columns, 5});
  }
  if (block == 1) {
    for (uint32_t columns : {31u, 33u, 255u, 257u, 515u}) shapes.push_back({11, columns, 6});
  }
  return shapes;
}

class MatMulTest : public testing::TestWithParam<DType> {};

TEST_P(MatMulTest, EqualsDequantizedProductOnOddShapes) {
  for (const Target& target : kTargets) {
    for (ActivationType type : {ActivationType::kQ8, ActivationType::kF32}) {
      for (const Shape& shape : ShapesFor(GetParam())) {
        ExpectProduct(target, GetParam(), type, shape);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(MatMulTest, UnpackedRowsAreBitEqualWithDequantizedOnes) {
  const Shape shape = {11, 768, 0};
  TestRandom random(5);
  const auto raw = RandomRows(GetParam(), shape.row_count, shape.column_count, random);
  const auto weights = Dequantize(GetParam(), raw, shape);
  std::vector<float> row(shape.column_count);
  for (const Target& target : kTargets) {
    const PackedRows rows = PackFor(target, GetParam(), raw, shape.row_count, shape.column_count);
    for (uint32_t r = 0; r < shape.row_count; ++r) {
      target.unpack(rows.matrix, r, 0, shape.column_count, row.data());
      EXPECT_EQ(std::memcmp(row.data(), weights.data() + size_t{r} * shape.column_count,
                            row.size() * sizeof(float)),
                0)
          << target.name << " row " << r;
    }
    target.unpack(rows.matrix, 3, 256, 512, row.data());
    EXPECT_EQ(std::memcmp(row.data(), weights.data() + 3 * shape.column_count + 256, 512 * 4), 0);
  }
}

TEST_P(MatMulTest, PackingInChunksEqualsPackingAtOnce) {
  constexpr uint32_t kRowCount = 29, kColumnCount = 256;
  TestRandom random(6);
  const auto raw = RandomRows(GetParam(), kRowCount, kColumnCount, random);
  const uint64_t row_size_bytes = RowSizeBytes(GetParam(), kColumnCount);
  for (const Target& target : kTargets) {
    const PackedRows once = PackFor(target, GetParam(), raw, kRowCount, kColumnCount);
    std::vector<std::byte> chunks(once.buffer.size_bytes(), std::byte{0xa5});
    for (const auto& [begin, count] : {std::pair{24u, 5u}, {8u, 16u}, {0u, 8u}}) {
      target.pack(GetParam(), raw.data() + begin * row_size_bytes, begin, count, kColumnCount,
                  chunks.data());
    }
    EXPECT_EQ(std::memcmp(chunks.data(), once.buffer.data(), chunks.size()), 0) << target.name;
  }
}

// Threads split rows, the scheduler splits tokens: neither may change a bit.
TEST_P(MatMulTest, PartsAreBitIdenticalWithTheWhole) {
  const Shape shape = {61, 768, 7};
  TestRandom random(7);
  const auto raw = RandomRows(GetParam(), shape.row_count, shape.column_count, random);
  const auto x = RandomActivations(size_t{shape.token_count} * shape.column_count, random);
  for (const Target& target : kTargets) {
    const PackedRows rows = PackFor(target, GetParam(), raw, shape.row_count, shape.column_count);
    for (ActivationType type : {ActivationType::kQ8, ActivationType::kF32}) {
      const PreparedTokens all = PrepareFor(target, type, x, shape.column_count);
      std::vector<float> whole(size_t{shape.row_count} * shape.token_count);
      target.matmul(rows.matrix, 0, shape.row_count, all.activations, whole.data(),
                    shape.row_count);
      for (uint32_t t = 0; t < shape.token_count; ++t) {
        const PreparedTokens one = PrepareFor(
            target, type, std::span(x).subspan(size_t{t} * shape.column_count, shape.column_count),
            shape.column_count);
        std::vector<float> part(shape.row_count, kSentinel);
        target.matmul(rows.matrix, 0, 24, one.activations, part.data(), 1);
        target.matmul(rows.matrix, 24, 61, one.activations, part.data() + 24, 1);
        EXPECT_EQ(std::memcmp(part.data(), whole.data() + size_t{t} * shape.row_count,
                              part.size() * sizeof(float)),
                  0)
            << target.name << " token " << t << " activation " << static_cast<int>(type);
      }
    }
  }
}

// Integer sums are exact and float sums have one order, so the two packings and all instruction
// sets differ only by whether multiply-add rounds once.
TEST_P(MatMulTest, TargetsWithEqualRoundingAreBitIdentical) {
  const Shape shape = {13, 1536, 3};
  TestRandom random(11);
  const auto raw = RandomRows(GetParam(), shape.row_count, shape.column_count, random);
  const auto x = RandomActivations(size_t{shape.token_count} * shape.column_count, random);
  for (ActivationType type : {ActivationType::kQ8, ActivationType::kF32}) {
    std::vector<float> results[2];
    for (const Target& target : kTargets) {
      const PackedRows rows = PackFor(target, GetParam(), raw, shape.row_count, shape.column_count);
      const PreparedTokens tokens = PrepareFor(target, type, x, shape.column_count);
      std::vector<float> y(size_t{shape.row_count} * shape.token_count);
      target.matmul(rows.matrix, 0, shape.row_count, tokens.activations, y.data(), shape.row_count);
      std::vector<float>& first = results[target.fuses ? 1 : 0];
      if (first.empty()) first = y;
      EXPECT_EQ(y, first) << target.name << " activation " << static_cast<int>(type);
    }
  }
}

// The public functions, raw and packed, against the oracle.
TEST_P(MatMulTest, PublicProductEqualsReference) {
  const Shape shape = {21, 512, 3};
  TestRandom random(8);
  const auto raw = RandomRows(GetParam(), shape.row_count, shape.column_count, random);
  const auto weights = Dequantize(GetParam(), raw, shape);
  const auto x = RandomActivations(size_t{shape.token_count} * shape.column_count, random);
  const Matrix raw_matrix = {GetParam(), PackedFormat::kRaw, shape.row_count, shape.column_count,
                             raw.data()};
  for (ActivationType type : {ActivationType::kQ8, ActivationType::kF32}) {
    const size_t x_size_bytes = ActivationRowSizeBytes(type, shape.column_count);
    EXPECT_EQ(x_size_bytes % 64, 0u);
    std::vector<std::byte> prepared(x_size_bytes * shape.token_count);
    for (uint32_t t = 0; t < shape.token_count; ++t) {
      PrepareActivationRow(type, x.data() + size_t{t} * shape.column_count, shape.column_count,
                           prepared.data() + t * x_size_bytes);
    }
    const Activations activations = {type, shape.token_count, shape.column_count, prepared.data()};
    constexpr PackedFormat format = PackedFormat::kInterleaved8;
    std::vector<std::byte> packed(
        PackedSizeBytes(format, GetParam(), shape.row_count, shape.column_count));
    PackRows(format, GetParam(), raw.data(), 0, shape.row_count, shape.column_count, packed.data());
    const Matrix matrix = {GetParam(), format, shape.row_count, shape.column_count, packed.data()};
    std::vector<float> expected(63), chosen(63);
    reference::MatMul(raw_matrix, 0, 21, activations, expected.data(), 21);
    MatMul(matrix, 0, 21, activations, chosen.data(), 21);
    for (size_t i = 0; i < expected.size(); ++i) {
      const double tolerance = Dot(weights.data() + i % 21 * shape.column_count,
                                   x.data() + i / 21 * shape.column_count, shape.column_count)
                                   .rounding;
      EXPECT_NEAR(chosen[i], expected[i], tolerance) << i;
    }
    std::vector<float> row(shape.column_count);
    UnpackRow(matrix, 20, row.data());
    EXPECT_EQ(std::memcmp(row.data(), weights.data() + 20 * shape.column_count, row.size() * 4), 0);
  }
}

TEST_P(MatMulTest, NanAndInfinityInActivationsReachTheResult) {
  constexpr uint32_t kColumnCount = 512;
  TestRandom random(9);
  const auto raw = RandomRows(GetParam(), 8, kColumnCount, random);
  for (const Target& target : kTargets) {
    const PackedRows rows = PackFor(target, GetParam(), raw, 8, kColumnCount);
    for (ActivationType type : {ActivationType::kQ8, ActivationType::kF32}) {
      for (float bad :
           {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
        auto x = RandomActivations(kColumnCount, random);
        x[300] = bad;
        const PreparedTokens tokens = PrepareFor(target, type, x, kColumnCount);
        std::vector<float> y(8);
        target.matmul(rows.matrix, 0, 8, tokens.activations, y.data(), 8);
        for (float value : y) EXPECT_FALSE(std::isfinite(value)) << target.name;
      }
    }
  }
}

void MakeNonFinite(DType dtype, std::byte* block) {
  if (dtype == DType::kF32) {
    StoreLe(block, std::numeric_limits<float>::quiet_NaN());
  } else if (dtype == DType::kF16 || dtype == DType::kBF16) {
    StoreLe(block, static_cast<uint16_t>(dtype == DType::kF16 ? 0xfc00 : 0x7fc1));
  } else {
    SetScales(dtype, reinterpret_cast<uint8_t*>(block), std::numeric_limits<float>::infinity(), 0);
  }
}

TEST_P(MatMulTest, FindNonFiniteFindsTheFirst) {
  TestRandom random(10);
  const auto raw = RandomRows(GetParam(), 2, 512, random);
  const uint32_t block_size_bytes = GetDType(GetParam()).block_size_bytes;
  const uint64_t block_count = raw.size() / block_size_bytes;
  for (uint64_t bad = 0; bad < block_count; bad += 1 + bad / 16) {
    auto changed = raw;
    MakeNonFinite(GetParam(), changed.data() + bad * block_size_bytes);
    MakeNonFinite(GetParam(), changed.data() + changed.size() - block_size_bytes);
    EXPECT_EQ(FindNonFinite(GetParam(), changed.data(), block_count), static_cast<int64_t>(bad));
    EXPECT_EQ(FindNonFinite(GetParam(), changed.data(), bad), -1);
  }
}

INSTANTIATE_TEST_SUITE_P(AllTypes, MatMulTest, testing::ValuesIn(kComputedTypes),
                         [](const testing::TestParamInfo<DType>& info) {
                           return std::string(GetDType(info.param).name);
                         });

// All integer extremes at once: no pair of products may saturate.
TEST(MatMulExtremesTest, Q8ProductsOfExtremesAreExact) {
  constexpr uint32_t kColumnCount = 64;
  std::vector<uint8_t> raw(8 * 2 * 34);
  for (size_t block = 0; block < 16; ++block) {
    StoreLe(&raw[block * 34], FloatToHalf(1.0f));
    for (size_t i = 0; i < 32; ++i) raw[block * 34 + 2 + i] = block % 2 == 0 ? 0x80 : 0x7f;
  }
  for (float sign : {1.0f, -1.0f}) {
    const std::vector<float> x(kColumnCount, sign * 127.0f);
    for (const Target& target : kTargets) {
      const PackedRows rows =
          PackFor(target, DType::kQ8_0, std::as_bytes(std::span(raw)), 8, kColumnCount);
      const PreparedTokens tokens = PrepareFor(target, ActivationType::kQ8, x, kColumnCount);
      std::vector<float> y(8);
      target.matmul(rows.matrix, 0, 8, tokens.activations, y.data(), 8);
      for (float value : y) EXPECT_EQ(value, sign * 127.0f * 32 * (-128 + 127)) << target.name;
    }
  }
}

TEST(ActivationsTest, QuantizesToNearestOfTheBlocksStep) {
  std::vector<float> x(40, 0.0f);
  x[0] = 127.0f;
  x[1] = -126.6f;
  x[2] = 0.5f;  // ties to even
  x[3] = 1.5f;
  x[33] = -2.0f;  // the second block is short
  std::vector<std::byte> row(Q8RowSizeBytes<true>(40));
  QuantizeRow<true>(x.data(), 40, row.data());
  const auto* blocks = reinterpret_cast<const ActivationBlock<true>*>(row.data());
  EXPECT_EQ(blocks[0].scale, kActivationScaleFactor);
  EXPECT_EQ(blocks[0].q[0], 127);
  EXPECT_EQ(blocks[0].q[1], -127);
  EXPECT_EQ(blocks[0].magnitude[1], 127);
  EXPECT_EQ(blocks[0].sign[0], 0);
  EXPECT_EQ(blocks[0].sign[1], 0xff);
  EXPECT_EQ(blocks[0].q[2], 0);
  EXPECT_EQ(blocks[0].q[3], 2);
  EXPECT_EQ(blocks[0].sums[0], 2);
  EXPECT_EQ(blocks[0].negative_sum, 127);
  EXPECT_EQ(blocks[1].q[1], -127);
  EXPECT_EQ(blocks[1].sums[0], -127);
  EXPECT_EQ(blocks[1].q[31], 0);
  std::vector<float> back(40);
  DequantizeActivations<true>(row.data(), 0, 40, back.data());
  EXPECT_EQ(back[0], 127.0f);
  EXPECT_NEAR(back[33], -2.0f, 1e-6);
}

TEST(ActivationsTest, TinyAndZeroBlocksAreZeroAndTheSmallestNormalIsKept) {
  std::vector<float> x(64, 1e-44f);
  x[32] = 0x1p-100f;
  std::vector<std::byte> row(Q8RowSizeBytes<false>(64));
  QuantizeRow<false>(x.data(), 64, row.data());
  std::vector<float> back(64);
  DequantizeActivations<false>(row.data(), 0, 64, back.data());
  for (int i = 0; i < 32; ++i) EXPECT_EQ(back[i], 0.0f);
  EXPECT_NEAR(back[32] * 0x1p100f, 1.0f, 1e-6f);
}

}  // namespace
}  // namespace nonstop::cpu
