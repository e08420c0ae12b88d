// For the cases of products: random matrices in windows, a state, expected floats between
// sentinels, and the oracle of every kind of product, f64 sums over the dequantized rows. A
// tolerance is the error of f32 sums: a few roundings of the sum of magnitudes.
#pragma once

#include <array>
#include <cmath>
#include <vector>

#include "base/bytes.h"
#include "cpu/matmul_testing.h"
#include "tensor/dequantize.h"
#include "webgpu/kernel_cases.h"
#include "webgpu/product.h"
#include "webgpu/weight_layout.h"

namespace nonstop {

inline constexpr float kSentinel = -12345.0f;
inline constexpr double kRoundings = 0x1p-20;  // 16 units in the last place
inline constexpr StateShape kState = {.max_rows = 96, .max_pages = 4};

// A number with the bound of its error.
struct Bounded {
  double value = 0;
  double error = 0;
};

// Matrices in windows as kernels see them.
struct TestMatrix {
  GpuMatrix matrix;
  std::vector<float> values;  // (row_count, column_count)
};

class TestWindows {
 public:
  explicit TestWindows(uint32_t seed) : random_(seed) {}

  TestMatrix Add(DType dtype, uint32_t row_count, uint32_t column_count, GpuBufferId window) {
    const std::vector<std::byte> raw = cpu::RandomRows(dtype, row_count, column_count, random_);
    return AddRaw(dtype, raw, row_count, column_count, window);
  }

  TestMatrix AddRaw(DType dtype, std::span<const std::byte> raw, uint32_t row_count,
                    uint32_t column_count, GpuBufferId window) {
    if (windows_.size() <= window) windows_.resize(window + 1);
    std::vector<std::byte>& bytes = windows_[window];
    bytes.resize(bytes.size() + 48, std::byte{0xee});  // matrices need not start at 0
    const size_t base = bytes.size();
    bytes.resize(base + GpuMatrixSizeBytes(dtype, row_count, column_count));
    PackGpuRows(dtype, raw.data(), row_count, column_count, bytes.data() + base);
    TestMatrix added;
    added.matrix = {dtype, row_count, column_count, {}};
    added.matrix.parts.push_back({window, static_cast<uint32_t>(base / 16), 0, row_count});
    added.values.resize(size_t{row_count} * column_count);
    const size_t row_bytes = RowSizeBytes(dtype, column_count);
    for (uint32_t row = 0; row < row_count; ++row) {
      DequantizeRow(dtype, raw.data() + row * row_bytes, column_count,
                    added.values.data() + size_t{row} * column_count);
    }
    return added;
  }

  CaseBinding Binding(GpuBufferId window) const {
    return {.access = GpuAccess::kRead, .bytes = windows_[window]};
  }
  cpu::TestRandom& random() { return random_; }

 private:
  cpu::TestRandom random_;
  std::vector<std::vector<std::byte>> windows_;
};

struct StateRows {
  uint32_t tokens = 1;
  uint32_t outputs = 0;
  std::vector<uint32_t> ids = {};        // zeros where absent
  std::vector<uint32_t> positions = {};  // likewise
};

// Sequence of row t: t % 2; page i of sequence s: 2 i + 1 - s.
inline uint32_t TestPage(uint32_t sequence, uint32_t page) { return 2 * page + 1 - sequence; }

inline CaseBinding MakeState(const StateRows& rows) {
  std::vector<uint32_t> state(16 + 5 * kState.max_rows + 2 * kState.max_pages);
  state[0] = rows.tokens;
  state[1] = rows.outputs;
  for (uint32_t t = 0; t < rows.tokens; ++t) {
    uint32_t* row = state.data() + 16 + 4 * t;
    row[0] = t < rows.ids.size() ? rows.ids[t] : 0;
    row[1] = t < rows.positions.size() ? rows.positions[t] : 0;
    row[2] = t % 2;
    row[3] = UINT32_MAX;
  }
  uint32_t* pages = state.data() + 16 + 5 * kState.max_rows;
  for (uint32_t s = 0; s < 2; ++s) {
    for (uint32_t i = 0; i < kState.max_pages; ++i)
      pages[s * kState.max_pages + i] = TestPage(s, i);
  }
  return CaseInput(state);
}

// What comes out of a buffer of floats: sentinels but for what is set.
class ExpectedFloats {
 public:
  explicit ExpectedFloats(size_t size)
      : before_(size, kSentinel), after_(size, kSentinel), tolerances_(size, 0.0f) {}

  void SetBefore(size_t at, float value) { before_[at] = after_[at] = value; }
  float before(size_t at) const { return before_[at]; }
  void Expect(size_t at, const Bounded& y) {
    after_[at] = static_cast<float>(y.value);
    tolerances_[at] = static_cast<float>(y.error + std::abs(y.value) * 0x1p-23);
  }
  CaseBinding Binding() const { return CaseOutput(before_, after_, tolerances_); }

 private:
  std::vector<float> before_;
  std::vector<float> after_;
  std::vector<float> tolerances_;
};

struct ProductCase {
  const char* name;
  ProductKind kind = ProductKind::kPlain;
  std::vector<DType> dtypes;         // of the matrices
  std::vector<uint32_t> row_counts;  // likewise
  uint32_t column_count = 32;
  uint32_t row_limit = 1;
  uint32_t tokens = 1;
  bool has_norm = false;
  uint32_t parts_head_dim = 0;  // not 0: x is attention's, in parts of heads of this size
  uint32_t parts_window = 0;
  bool uses_subgroups = false;
  RowSpace row_space = RowSpace::kTokens;
  bool residual_is_apart = false;
  Activation activation = Activation::kNone;
  float soft_cap = 0.0f;
  std::array<bool, 3> has_bias = {};
  bool uses_windows = false;  // one for each matrix
  uint32_t head_dim = 0;
  uint32_t rotated_dim = 0;
  bool rope_halves = false;
  bool kv_is_f32 = true;
};
void AddProduct(CaseWriter& writer, const ProductCase& test);

}  // namespace nonstop
