// Differential fuzzer of packing and the matrix product: blocks of any bytes (scales made finite),
// any type, odd shapes, on every vector target of the build. Rows unpacked must equal the oracle
// bit for bit; products must be near f64 and, between targets that round alike, equal bit for bit.
#include <cstdlib>

#include "cpu/matmul_testing.h"
#include "tensor/dequantize.h"

namespace nonstop::cpu {
namespace {

class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  // Starts over at the end, so that short inputs fill large shapes.
  uint8_t Byte() {
    if (size_ == 0) return 0;
    if (at_ == size_) at_ = 0;
    return data_[at_++];
  }
  float Signed() {  // -2..2, zero and f16-subnormal sizes among them
    const auto value = static_cast<int8_t>(Byte());
    return static_cast<float>(value) * ((value & 3) == 0 ? 0x1p-22f : 0x1p-6f);
  }

 private:
  const uint8_t* data_;
  size_t size_;
  size_t at_ = 0;
};

struct Case {
  DType dtype;
  uint32_t row_count, column_count, token_count;
  std::vector<std::byte> raw;
  std::vector<float> weights;
  std::vector<float> x;
  double part_limit = 0;  // of what a weight is the sum of
};

Case MakeCase(Input& input) {
  Case c = {};
  c.dtype = kComputedTypes[input.Byte() % std::size(kComputedTypes)];
  const DTypeInfo& info = GetDType(c.dtype);
  c.row_count = 1 + input.Byte() % 19;
  c.column_count = info.block_length * (1 + input.Byte() % (info.block_length == 1 ? 70 : 3));
  c.token_count = 1 + input.Byte() % 6;
  c.raw.resize(c.row_count * RowSizeBytes(c.dtype, c.column_count));
  auto* bytes = reinterpret_cast<uint8_t*>(c.raw.data());
  for (size_t at = 0; at < c.raw.size(); at += info.block_size_bytes) {
    const float scale = input.Signed(), minimum = input.Signed();
    for (size_t i = 0; i < info.block_size_bytes; ++i) bytes[at + i] = input.Byte();
    if (c.dtype == DType::kF32) StoreLe(bytes + at, scale);
    if (c.dtype == DType::kF16) StoreLe(bytes + at, FloatToHalf(scale));
    if (c.dtype == DType::kBF16) bytes[at + 1] &= 0xbf;  // below 2
    SetScales(c.dtype, bytes + at, scale, minimum);
    c.part_limit = std::fmax(c.part_limit, 2.0 + 4096 * std::fabs(scale) + 64 * std::fabs(minimum));
  }
  c.weights.resize(size_t{c.row_count} * c.column_count);
  for (uint32_t r = 0; r < c.row_count; ++r) {
    DequantizeRow(c.dtype, c.raw.data() + r * RowSizeBytes(c.dtype, c.column_count), c.column_count,
                  c.weights.data() + size_t{r} * c.column_count);
  }
  c.x.resize(size_t{c.token_count} * c.column_count);
  for (float& value : c.x) value = input.Signed() * 8;
  return c;
}

void Require(bool condition) {
  if (!condition) std::abort();
}

void CheckUnpack(const Case& c, const Target& target, const Matrix& matrix) {
  std::vector<float> row(c.column_count);
  for (uint32_t r = 0; r < c.row_count; ++r) {
    target.unpack(matrix, r, 0, c.column_count, row.data());
    Require(std::memcmp(row.data(), c.weights.data() + size_t{r} * c.column_count,
                        row.size() * sizeof(float)) == 0);
  }
}

std::vector<float> CheckProduct(const Case& c, const Target& target, const Matrix& matrix,
                                ActivationType type) {
  const PreparedTokens tokens = PrepareFor(target, type, c.x, c.column_count);
  std::vector<float> y(size_t{c.row_count} * c.token_count);
  target.matmul(matrix, 0, c.row_count, tokens.activations, y.data(), c.row_count);
  std::vector<float> seen(c.column_count);
  for (uint32_t t = 0; t < c.token_count; ++t) {
    std::copy_n(c.x.data() + size_t{t} * c.column_count, c.column_count, seen.data());
    if (type == ActivationType::kQ8) {
      target.dequantize(tokens.buffer.data() + t * target.q8_row_size_bytes(c.column_count), 0,
                        c.column_count, seen.data());
    }
    double x_magnitudes = 0;
    for (float value : seen) x_magnitudes += std::fabs(value);
    for (uint32_t r = 0; r < c.row_count; ++r) {
      double sum = 0, magnitudes = 0;
      for (uint32_t k = 0; k < c.column_count; ++k) {
        const double product = double{c.weights[size_t{r} * c.column_count + k]} * seen[k];
        sum += product;
        magnitudes += std::fabs(product);
      }
      // f32: at most 140 roundings, each of at most the sum of magnitudes. 8 bits: at most 60, of
      // parts that may be larger than the weights.
      const bool is_float = type == ActivationType::kF32 || GetDType(c.dtype).block_length == 1;
      const double limit = is_float ? 140 * magnitudes : 60 * x_magnitudes * c.part_limit;
      const double error = std::fabs(y[size_t{t} * c.row_count + r] - sum);
      Require(error <= limit * 0x1p-24 + 1e-20);
    }
  }
  return y;
}

}  // namespace
}  // namespace nonstop::cpu

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nonstop::cpu;
  Input input(data, size);
  const Case c = MakeCase(input);
  for (ActivationType type : {ActivationType::kQ8, ActivationType::kF32}) {
    std::vector<float> results[2];
    for (const Target& target : kTargets) {
      const PackedRows rows = PackFor(target, c.dtype, c.raw, c.row_count, c.column_count);
      CheckUnpack(c, target, rows.matrix);
      const std::vector<float> y = CheckProduct(c, target, rows.matrix, type);
      std::vector<float>& first = results[target.fuses ? 1 : 0];
      if (first.empty()) first = y;
      Require(y == first);
    }
  }
  return 0;
}
