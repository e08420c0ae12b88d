// What the tests, the fuzzer and the micro-benchmark of the matrix product share: random weights of
// any type as GGUF rows, and the vector targets of this build behind one table.
#pragma once

#include <bit>
#include <cmath>
#include <vector>

#include "base/bytes.h"
#include "base/half.h"
#include "cpu/generic/activations.h"
#include "cpu/generic/matmul.h"
#include "cpu/vec/vec.h"

namespace nonstop::cpu {

inline constexpr DType kComputedTypes[] = {DType::kF32,  DType::kF16,   DType::kBF16, DType::kQ4_0,
                                           DType::kQ4_1, DType::kQ5_0,  DType::kQ5_1, DType::kQ8_0,
                                           DType::kQ2_K, DType::kQ3_K,  DType::kQ4_K, DType::kQ5_K,
                                           DType::kQ6_K, DType::kIQ4_NL};

// xorshift64* (Vigna 2014).
class TestRandom {
 public:
  explicit TestRandom(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}
  uint32_t Next() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return static_cast<uint32_t>((state_ * 0x2545f4914f6cdd1du) >> 32);
  }
  float Uniform(float low, float high) {
    return low + (high - low) * static_cast<float>(Next() >> 8) * 0x1p-24f;
  }

 private:
  uint64_t state_;
};

// Byte offsets of the f16 scale and minimum in a block; -1: none.
struct ScaleOffsets {
  DType dtype;
  int scale;
  int minimum;
};
inline constexpr ScaleOffsets kScaleOffsets[] = {
    {DType::kQ4_0, 0, -1}, {DType::kQ4_1, 0, 2},    {DType::kQ5_0, 0, -1},  {DType::kQ5_1, 0, 2},
    {DType::kQ8_0, 0, -1}, {DType::kIQ4_NL, 0, -1}, {DType::kQ2_K, 80, 82}, {DType::kQ3_K, 108, -1},
    {DType::kQ4_K, 0, 2},  {DType::kQ5_K, 0, 2},    {DType::kQ6_K, 208, -1}};

// Makes a block of any bytes one of finite weights, by replacing its scales.
inline void SetScales(DType dtype, uint8_t* block, float scale, float minimum) {
  for (const ScaleOffsets& row : kScaleOffsets) {
    if (row.dtype != dtype) continue;
    StoreLe(block + row.scale, FloatToHalf(scale));
    if (row.minimum >= 0) StoreLe(block + row.minimum, FloatToHalf(minimum));
  }
}

inline std::vector<std::byte> RandomRows(DType dtype, uint32_t row_count, uint32_t column_count,
                                         TestRandom& random) {
  const DTypeInfo& info = GetDType(dtype);
  std::vector<std::byte> rows(row_count * RowSizeBytes(dtype, column_count));
  auto* bytes = reinterpret_cast<uint8_t*>(rows.data());
  for (size_t i = 0; i < rows.size(); ++i) bytes[i] = static_cast<uint8_t>(random.Next());
  for (size_t at = 0; at < rows.size(); at += info.block_size_bytes) {
    const float value = random.Uniform(-0.1f, 0.1f);
    switch (dtype) {
      case DType::kF32:
        StoreLe(bytes + at, value);
        break;
      case DType::kF16:
        StoreLe(bytes + at, FloatToHalf(value));
        break;
      case DType::kBF16:
        StoreLe(bytes + at, static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16));
        break;
      default:
        SetScales(dtype, bytes + at, value * 0.1f, random.Uniform(-0.1f, 0.1f));
    }
  }
  return rows;
}

// Values of very different sizes, as activations have them.
inline std::vector<float> RandomActivations(size_t count, TestRandom& random) {
  std::vector<float> x(count);
  for (float& value : x) {
    value = random.Uniform(-1, 1) * (random.Next() % 61 == 0 ? 20.0f : 1.0f);
  }
  return x;
}

struct Target {
  const char* name;
  bool fuses;
  decltype(&PackInterleaved<true>) pack;
  decltype(&UnpackInterleaved<true>) unpack;
  decltype(&QuantizeRow<true>) quantize;
  decltype(&DequantizeActivations<true>) dequantize;
  size_t (*q8_row_size_bytes)(uint32_t);
  void (*matmul)(const Matrix&, uint32_t, uint32_t, const Activations&, float*, size_t);
};

template <class S>
void MatMulOf(const Matrix& w, uint32_t row_begin, uint32_t row_end, const Activations& x, float* y,
              size_t y_stride) {
  MatMulOn<S>::Run(w, row_begin, row_end, x, y, y_stride);
}

template <class S>
constexpr Target TargetOf() {
  constexpr bool kBytes = S::kByteDot;
  return {S::kName,
          S::kFuses,
          PackInterleaved<kBytes>,
          UnpackInterleaved<kBytes>,
          QuantizeRow<kBytes>,
          DequantizeActivations<kBytes>,
          Q8RowSizeBytes<kBytes>,
          MatMulOf<S>};
}

inline constexpr Target kTargets[] = {
    TargetOf<vec::Scalar<true>>(), TargetOf<vec::Scalar<false>>(),    TargetOf<vec::ScalarPairs>(),
#if defined(__SSE2__)
    TargetOf<vec::X86<true>>(),    TargetOf<vec::X86<false>>(),
#endif
#if defined(__SSSE3__)
    TargetOf<vec::X86Pairs>(),
#endif
#if defined(__wasm_simd128__)
    TargetOf<vec::WasmSimd>(),
#endif
#if defined(__wasm_relaxed_simd__)
    TargetOf<vec::WasmRelaxed>(),  TargetOf<vec::WasmRelaxedPairs>(),
#endif
};

// Rows packed for a target, with their storage.
struct PackedRows {
  AlignedBuffer buffer;
  Matrix matrix;
};

inline PackedRows PackFor(const Target& target, DType dtype, std::span<const std::byte> raw,
                          uint32_t row_count, uint32_t column_count) {
  PackedRows rows;
  const uint64_t group_count = (row_count + kGroupRowCount - 1) / kGroupRowCount;
  auto buffer = AlignedBuffer::Create(group_count * InterleavedGroupSizeBytes(dtype, column_count));
  CHECK(buffer.ok());
  rows.buffer = std::move(*buffer);
  target.pack(dtype, raw.data(), 0, row_count, column_count, rows.buffer.data());
  rows.matrix = {dtype, PackedFormat::kInterleaved8, row_count, column_count, rows.buffer.data()};
  return rows;
}

// Activations prepared for a target, with their storage.
struct PreparedTokens {
  AlignedBuffer buffer;
  Activations activations;
};

inline PreparedTokens PrepareFor(const Target& target, ActivationType type,
                                 std::span<const float> x, uint32_t column_count) {
  PreparedTokens tokens;
  const auto token_count = static_cast<uint32_t>(x.size() / column_count);
  const size_t row_size_bytes = type == ActivationType::kQ8
                                    ? target.q8_row_size_bytes(column_count)
                                    : RoundUp(size_t{column_count} * 4, size_t{64});
  auto buffer = AlignedBuffer::Create(token_count * row_size_bytes);
  CHECK(buffer.ok());
  tokens.buffer = std::move(*buffer);
  for (uint32_t t = 0; t < token_count; ++t) {
    const float* row = x.data() + size_t{t} * column_count;
    std::byte* to = tokens.buffer.data() + t * row_size_bytes;
    if (type == ActivationType::kQ8) {
      target.quantize(row, column_count, to);
    } else {
      std::copy_n(row, column_count, reinterpret_cast<float*>(to));
    }
  }
  tokens.activations = {type, token_count, column_count, tokens.buffer.data()};
  return tokens;
}

}  // namespace nonstop::cpu
