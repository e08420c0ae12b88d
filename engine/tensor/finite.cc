#include "tensor/finite.h"

#include "base/bytes.h"

namespace nonstop {
namespace {

// Offsets of the f16 scale and minimum in a block; -1: none. Source: ggml-common.h.
struct ScaleOffsets {
  int first;
  int second;
};

ScaleOffsets GetScaleOffsets(DType dtype) {
  switch (dtype) {
    case DType::kQ4_1:
    case DType::kQ5_1:
    case DType::kQ4_K:
    case DType::kQ5_K:
      return {0, 2};
    case DType::kQ2_K:
      return {80, 82};
    case DType::kQ3_K:
      return {108, -1};
    case DType::kQ6_K:
      return {208, -1};
    default:
      return {0, -1};  // Q4_0, Q5_0, Q8_0, IQ4_NL, F16
  }
}

bool HalfIsFinite(const std::byte* bytes) { return (LoadLe<uint16_t>(bytes) & 0x7c00u) != 0x7c00u; }

struct FloatBits {
  uint64_t exponents;
  uint64_t lowest;  // of each exponent
};

FloatBits GetFloatBits(DType dtype) {
  if (dtype == DType::kF32) return {0x7f8000007f800000u, 0x0080000000800000u};
  if (dtype == DType::kBF16) return {0x7f807f807f807f80u, 0x0080008000800080u};
  return {0x7c007c007c007c00u, 0x0400040004000400u};
}

// Index of a float at or before the first that is not finite, near it: 8 bytes are seen at a time.
// An exponent of all ones plus one carries into the sign's place.
uint64_t SkipFinite(DType dtype, const std::byte* floats, uint64_t size_bytes) {
  const FloatBits bits = GetFloatBits(dtype);
  const uint64_t carries = bits.exponents + bits.lowest;
  uint64_t at = 0;
  for (; at + 8 <= size_bytes; at += 8) {
    const uint64_t sum = (LoadLe<uint64_t>(floats + at) & bits.exponents) + bits.lowest;
    if ((sum & carries) != 0) break;
  }
  return at / GetDType(dtype).block_size_bytes;
}

bool BlockIsFinite(DType dtype, const ScaleOffsets& offsets, const std::byte* block) {
  if (dtype == DType::kF32) return (LoadLe<uint32_t>(block) & 0x7f800000u) != 0x7f800000u;
  if (dtype == DType::kBF16) return (LoadLe<uint16_t>(block) & 0x7f80u) != 0x7f80u;
  return HalfIsFinite(block + offsets.first) &&
         (offsets.second < 0 || HalfIsFinite(block + offsets.second));
}

}  // namespace

int64_t FindNonFinite(DType dtype, const std::byte* blocks, uint64_t block_count) {
  const DTypeInfo& info = GetDType(dtype);
  const ScaleOffsets offsets = GetScaleOffsets(dtype);
  uint64_t i = 0;
  if (info.block_length == 1) i = SkipFinite(dtype, blocks, block_count * info.block_size_bytes);
  for (; i < block_count; ++i) {
    if (!BlockIsFinite(dtype, offsets, blocks + i * info.block_size_bytes)) {
      return static_cast<int64_t>(i);
    }
  }
  return -1;
}

}  // namespace nonstop
