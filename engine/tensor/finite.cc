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

}  // namespace

int64_t FindNonFinite(DType dtype, const std::byte* blocks, uint64_t block_count) {
  const uint32_t block_size_bytes = GetDType(dtype).block_size_bytes;
  const ScaleOffsets offsets = GetScaleOffsets(dtype);
  for (uint64_t i = 0; i < block_count; ++i) {
    const std::byte* block = blocks + i * block_size_bytes;
    bool is_finite = true;
    if (dtype == DType::kF32) {
      is_finite = (LoadLe<uint32_t>(block) & 0x7f800000u) != 0x7f800000u;
    } else if (dtype == DType::kBF16) {
      is_finite = (LoadLe<uint16_t>(block) & 0x7f80u) != 0x7f80u;
    } else {
      is_finite = HalfIsFinite(block + offsets.first) &&
                  (offsets.second < 0 || HalfIsFinite(block + offsets.second));
    }
    if (!is_finite) return static_cast<int64_t>(i);
  }
  return -1;
}

}  // namespace nonstop
