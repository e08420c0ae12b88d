#include "webgpu/weight_layout.h"

#include <algorithm>
#include <cstring>

#include "base/bytes.h"
#include "base/check.h"
#include "tensor/dequantize.h"

namespace nonstop {
namespace {

constexpr WeightPlanes kPlanes[] = {
    {DType::kF32, "f32", "dtype_f32", 128, 0, 0, 0},
    {DType::kF16, "f16", "dtype_f16", 64, 0, 0, 0},
    {DType::kBF16, "bf16", "dtype_bf16", 64, 0, 0, 0},
    {DType::kQ4_0, "q4_0", "dtype_q4_0", 16, 0, 2, 0},
    {DType::kQ4_1, "q4_1", "dtype_q4_1", 16, 0, 4, 0},
    {DType::kQ5_0, "q5_0", "dtype_q5_0", 16, 4, 2, 0},
    {DType::kQ5_1, "q5_1", "dtype_q5_1", 16, 4, 4, 0},
    {DType::kQ8_0, "q8_0", "dtype_q8_0", 32, 0, 2, 0},
    {DType::kIQ4_NL, "iq4_nl", "dtype_iq4_nl", 16, 0, 2, 0},
    {DType::kQ2_K, "q2_k", "dtype_q2_k", 8, 0, 2, 4},
    {DType::kQ3_K, "q3_k", "dtype_q3_k", 8, 4, 2, 2},
    {DType::kQ4_K, "q4_k", "dtype_q4_k", 16, 0, 2, 4},
    {DType::kQ5_K, "q5_k", "dtype_q5_k", 16, 4, 2, 4},
    {DType::kQ6_K, "q6_k", "dtype_q6_k", 16, 8, 2, 2},
};

// What 32 weights of a file are made of, before they are laid out.
struct RawBlock {
  uint8_t low[32];   // the weight's low bits, as many as the type's quants have
  uint8_t high[32];  // the bits above them
  uint8_t scales[4];
  uint8_t super[4];
};

const uint8_t* Bytes(const std::byte* bytes) { return reinterpret_cast<const uint8_t*>(bytes); }

// Q4_0 and its kin: scales (f16, and f16 minimum in the _1 types), 32 high bits (Q5), then quants.
RawBlock ReadSimple(const WeightPlanes& planes, const uint8_t* raw) {
  RawBlock block = {};
  std::memcpy(block.scales, raw, planes.scale_bytes);
  raw += planes.scale_bytes;
  const auto high_bits = planes.high_bytes == 4 ? LoadLe<uint32_t>(raw) : 0;
  raw += planes.high_bytes;
  for (uint32_t i = 0; i < 32; ++i) {
    if (planes.quant_bytes == 32) {
      block.low[i] = raw[i];
    } else {
      block.low[i] = raw[i % 16] >> (i / 16 * 4) & 0xf;
    }
    block.high[i] = high_bits >> i & 1;
  }
  return block;
}

RawBlock ReadQ2K(const uint8_t* raw, uint32_t part) {
  RawBlock block = {};
  for (uint32_t i = 0; i < 32; ++i) {
    block.low[i] = raw[16 + part / 4 * 32 + i] >> (part % 4 * 2) & 3;
  }
  std::memcpy(block.scales, raw + size_t{part} * 2, 2);
  std::memcpy(block.super, raw + 80, 4);
  return block;
}

RawBlock ReadQ3K(const uint8_t* raw, uint32_t part) {
  RawBlock block = {};
  for (uint32_t i = 0; i < 32; ++i) {
    block.low[i] = raw[32 + part / 4 * 32 + i] >> (part % 4 * 2) & 3;
    block.high[i] = raw[i] >> part & 1;
  }
  for (uint32_t i = 0; i < 2; ++i) {
    block.scales[i] = static_cast<uint8_t>(UnpackQ3KScale(raw + 96, part * 2 + i));
  }
  std::memcpy(block.super, raw + 108, 2);
  return block;
}

// Q4_K and Q5_K.
RawBlock ReadQ45K(const uint8_t* raw, uint32_t part, bool has_high) {
  RawBlock block = {};
  const uint8_t* nibbles = raw + (has_high ? 48 : 16) + part / 2 * 32;
  for (uint32_t i = 0; i < 32; ++i) {
    block.low[i] = nibbles[i] >> (part % 2 * 4) & 0xf;
    block.high[i] = has_high ? raw[16 + i] >> part & 1 : 0;
  }
  const KScaleMin packed = UnpackQ4KScaleMin(raw + 4, part);
  block.scales[0] = packed.scale;
  block.scales[1] = packed.minimum;
  std::memcpy(block.super, raw, 4);
  return block;
}

RawBlock ReadQ6K(const uint8_t* raw, uint32_t part) {
  RawBlock block = {};
  const uint8_t* nibbles = raw + part / 4 * 64 + part % 2 * 32;
  const uint8_t* high_parts = raw + 128 + part / 4 * 32;
  for (uint32_t i = 0; i < 32; ++i) {
    block.low[i] = nibbles[i] >> (part % 4 / 2 * 4) & 0xf;
    block.high[i] = high_parts[i] >> (part % 4 * 2) & 3;
  }
  std::memcpy(block.scales, raw + 192 + size_t{part} * 2, 2);
  std::memcpy(block.super, raw + 208, 2);
  return block;
}

RawBlock ReadBlock(const WeightPlanes& planes, const uint8_t* raw, uint32_t part) {
  switch (planes.dtype) {
    case DType::kQ2_K:
      return ReadQ2K(raw, part);
    case DType::kQ3_K:
      return ReadQ3K(raw, part);
    case DType::kQ4_K:
    case DType::kQ5_K:
      return ReadQ45K(raw, part, planes.high_bytes != 0);
    case DType::kQ6_K:
      return ReadQ6K(raw, part);
    default:
      return ReadSimple(planes, raw);
  }
}

// Writes 32 numbers of 1, 2, 4 or 8 bits as weight_layout.h says.
void PlaceBits(const uint8_t* numbers, uint32_t size_bytes, uint8_t* out) {
  std::memset(out, 0, size_bytes);
  for (uint32_t i = 0; i < 32; ++i) {
    const uint32_t group = i / 4, k = i % 4;
    const uint32_t number = numbers[i];
    switch (size_bytes) {
      case 4:
        out[k] |= static_cast<uint8_t>(number << group);
        break;
      case 8:
        out[group / 4 * 4 + k] |= static_cast<uint8_t>(number << (group % 4 * 2));
        break;
      case 16:
        out[group % 4 * 4 + k] |= static_cast<uint8_t>(number << (group / 4 * 4));
        break;
      default:
        out[i] = static_cast<uint8_t>(number);
    }
  }
}

class GroupPacker {
 public:
  GroupPacker(DType dtype, uint32_t column_count, std::byte* packed)
      : info_(GetDType(dtype)),
        planes_(GetWeightPlanes(dtype)),
        column_count_(column_count),
        block_count_(GpuBlockCount(column_count)) {
    quants_ = reinterpret_cast<uint8_t*>(packed);
    high_ = quants_ + PlaneSize(planes_.quant_bytes);
    scales_ = high_ + PlaneSize(planes_.high_bytes);
    supers_ = scales_ + PlaneSize(planes_.scale_bytes);
  }

  void PackRow(uint32_t row, const std::byte* raw) {
    if (info_.block_length == 1) {
      std::memcpy(quants_ + size_t{row} * block_count_ * planes_.quant_bytes, raw,
                  size_t{column_count_} * info_.block_size_bytes);
      return;
    }
    const uint32_t parts = info_.block_length / kGpuBlockColumns;
    for (uint32_t b = 0; b < block_count_; ++b) {
      const uint8_t* raw_block = Bytes(raw) + size_t{b / parts} * info_.block_size_bytes;
      PackBlock(size_t{row} * block_count_ + b, ReadBlock(planes_, raw_block, b % parts));
    }
  }

 private:
  size_t PlaneSize(uint32_t block_bytes) const {
    return size_t{kGpuGroupRows} * block_count_ * block_bytes;
  }

  void PackBlock(size_t index, const RawBlock& block) {
    PlaceBits(block.low, planes_.quant_bytes, quants_ + index * planes_.quant_bytes);
    if (planes_.high_bytes != 0) {
      PlaceBits(block.high, planes_.high_bytes, high_ + index * planes_.high_bytes);
    }
    std::memcpy(scales_ + index * planes_.scale_bytes, block.scales, planes_.scale_bytes);
    std::memcpy(supers_ + index / 8 * planes_.super_bytes, block.super, planes_.super_bytes);
  }

  const DTypeInfo& info_;
  const WeightPlanes& planes_;
  uint32_t column_count_;
  uint32_t block_count_;
  uint8_t* quants_;
  uint8_t* high_;
  uint8_t* scales_;
  uint8_t* supers_;
};

// The files that take a type's raw blocks apart.
std::vector<std::string_view> PackFiles(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
      return {"pack_float", "pack"};
    case DType::kQ2_K:
      return {"pack_k", "pack_q2_k", "pack"};
    case DType::kQ3_K:
      return {"pack_k", "pack_q3_k", "pack"};
    case DType::kQ4_K:
    case DType::kQ5_K:
      return {"pack_k", "pack_q45_k", "pack"};
    case DType::kQ6_K:
      return {"pack_k", "pack_q6_k", "pack"};
    default:
      return {"pack_simple", "pack"};
  }
}

}  // namespace

const WeightPlanes& GetWeightPlanes(DType dtype) {
  for (const WeightPlanes& planes : kPlanes) {
    if (planes.dtype == dtype) return planes;
  }
  CHECK(!"a type that is not computed with");
  return kPlanes[0];
}

uint32_t GpuGroupSizeBytes(DType dtype, uint32_t column_count) {
  const WeightPlanes& planes = GetWeightPlanes(dtype);
  const uint32_t block_bytes = planes.quant_bytes + planes.high_bytes + planes.scale_bytes;
  const uint32_t blocks = GpuBlockCount(column_count);
  return kGpuGroupRows * blocks * block_bytes + blocks * planes.super_bytes;
}

uint64_t GpuMatrixSizeBytes(DType dtype, uint32_t row_count, uint32_t column_count) {
  return uint64_t{DivideRoundUp(row_count, kGpuGroupRows)} * GpuGroupSizeBytes(dtype, column_count);
}

void PackGpuRows(DType dtype, const std::byte* raw_rows, uint32_t row_count, uint32_t column_count,
                 std::byte* packed) {
  const uint64_t row_bytes = RowSizeBytes(dtype, column_count);
  const uint32_t group_bytes = GpuGroupSizeBytes(dtype, column_count);
  std::memset(packed, 0, GpuMatrixSizeBytes(dtype, row_count, column_count));
  for (uint32_t row = 0; row < row_count; ++row) {
    GroupPacker group(dtype, column_count, packed + size_t{row / kGpuGroupRows} * group_bytes);
    group.PackRow(row % kGpuGroupRows, raw_rows + row * row_bytes);
  }
}

KernelSource MakePackKernel(DType dtype) {
  const DTypeInfo& info = GetDType(dtype);
  const WeightPlanes& planes = GetWeightPlanes(dtype);
  KernelSpec spec;
  spec.name = "pack_" + std::string(planes.name);
  spec.constants = {
      // A float's block is one weight: RAW_BYTES is its size.
      KernelConstant::Uint(info.block_length == 1 ? "RAW_BYTES" : "RAW_BLOCK_BYTES",
                           info.block_size_bytes),
      KernelConstant::Uint("QUANT_BYTES", planes.quant_bytes),
      KernelConstant::Uint("HIGH_BYTES", planes.high_bytes),
      KernelConstant::Uint("SCALE_BYTES", planes.scale_bytes),
      KernelConstant::Uint("SUPER_BYTES", planes.super_bytes),
  };
  spec.bindings = {KernelBinding::kRaw, KernelBinding::kPacked, KernelBinding::kParams};
  spec.files = PackFiles(dtype);
  return ComposeKernel(spec);
}

std::array<uint32_t, 16> PackParams(DType dtype, uint32_t column_count, uint32_t row_count,
                                    uint32_t raw_begin_bytes, uint32_t packed_begin) {
  const auto words = static_cast<uint32_t>(GpuMatrixSizeBytes(dtype, row_count, column_count) / 4);
  const auto row_bytes = static_cast<uint32_t>(RowSizeBytes(dtype, column_count));
  return {raw_begin_bytes, packed_begin, row_count, words, column_count, row_bytes};
}

}  // namespace nonstop
