// One function per block type, in the order of ggml's table. Layouts: ggml/src/ggml-common.h.
#include "tensor/dequantize.h"

#include "base/bytes.h"
#include "base/check.h"
#include "base/half.h"

// The oracle must not depend on the compiler's choice of fused operations.
#pragma STDC FP_CONTRACT OFF

namespace nonstop {
namespace {

float LoadHalf(const uint8_t* bytes) { return HalfToFloat(LoadLe<uint16_t>(bytes)); }

void DequantizeF32(const uint8_t* block, float* out) { *out = LoadLe<float>(block); }
void DequantizeF16(const uint8_t* block, float* out) { *out = LoadHalf(block); }
void DequantizeBF16(const uint8_t* block, float* out) {
  *out = Bfloat16ToFloat(LoadLe<uint16_t>(block));
}

// d f16, 16 bytes of nibbles: low nibbles are weights 0..15, high nibbles 16..31.
void DequantizeQ4_0(const uint8_t* block, float* out) {
  const float scale = LoadHalf(block);
  const uint8_t* nibbles = block + 2;
  for (int i = 0; i < 16; ++i) {
    out[i] = static_cast<float>((nibbles[i] & 0xf) - 8) * scale;
    out[i + 16] = static_cast<float>((nibbles[i] >> 4) - 8) * scale;
  }
}

// d f16, m f16, nibbles as in Q4_0.
void DequantizeQ4_1(const uint8_t* block, float* out) {
  const float scale = LoadHalf(block);
  const float minimum = LoadHalf(block + 2);
  const uint8_t* nibbles = block + 4;
  for (int i = 0; i < 16; ++i) {
    out[i] = static_cast<float>(nibbles[i] & 0xf) * scale + minimum;
    out[i + 16] = static_cast<float>(nibbles[i] >> 4) * scale + minimum;
  }
}

// Weight `i` (0..31) of a Q5 block: a nibble and bit `i` of the 32 high bits.
int32_t FiveBits(const uint8_t* nibbles, uint32_t high_bits, int i) {
  const int32_t nibble = i < 16 ? nibbles[i] & 0xf : nibbles[i - 16] >> 4;
  return nibble | static_cast<int32_t>((high_bits >> i & 1) << 4);
}

// d f16, 32 high bits, nibbles as in Q4_0.
void DequantizeQ5_0(const uint8_t* block, float* out) {
  const float scale = LoadHalf(block);
  const auto high_bits = LoadLe<uint32_t>(block + 2);
  for (int i = 0; i < 32; ++i) {
    out[i] = static_cast<float>(FiveBits(block + 6, high_bits, i) - 16) * scale;
  }
}

// d f16, m f16, 32 high bits, nibbles as in Q4_0.
void DequantizeQ5_1(const uint8_t* block, float* out) {
  const float scale = LoadHalf(block);
  const float minimum = LoadHalf(block + 2);
  const auto high_bits = LoadLe<uint32_t>(block + 4);
  for (int i = 0; i < 32; ++i) {
    out[i] = static_cast<float>(FiveBits(block + 8, high_bits, i)) * scale + minimum;
  }
}

// d f16, 32 signed bytes.
void DequantizeQ8_0(const uint8_t* block, float* out) {
  const float scale = LoadHalf(block);
  for (int i = 0; i < 32; ++i) {
    out[i] = static_cast<float>(static_cast<int8_t>(block[2 + i])) * scale;
  }
}

// 16 bytes of 4-bit scale (low) and minimum (high), 64 bytes of 2-bit weights, d f16, dmin f16.
// Weight i: byte 32 * (i / 128) + i % 32, shift 2 * (i / 32 % 4); sub-blocks of 16.
void DequantizeQ2_K(const uint8_t* block, float* out) {
  const uint8_t* scales = block;
  const uint8_t* twos = block + 16;
  const float scale = LoadHalf(block + 80);
  const float minimum = LoadHalf(block + 82);
  for (int i = 0; i < 256; ++i) {
    const uint8_t packed = scales[i / 16];
    const float sub_scale = scale * static_cast<float>(packed & 0xf);
    const float sub_minimum = minimum * static_cast<float>(packed >> 4);
    const int32_t two = twos[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2) & 3;
    out[i] = sub_scale * static_cast<float>(two) - sub_minimum;
  }
}

// 32 bytes of high bits (bit i / 32 of byte i % 32; a clear bit means minus 4), 64 bytes of 2-bit
// weights as in Q2_K, 12 bytes of 6-bit scales, d f16.
void DequantizeQ3_K(const uint8_t* block, float* out) {
  const uint8_t* high_bits = block;
  const uint8_t* twos = block + 32;
  const uint8_t* scales = block + 96;
  const float scale = LoadHalf(block + 108);
  for (int i = 0; i < 256; ++i) {
    const auto sub_block = static_cast<uint32_t>(i / 16);
    const float sub_scale = scale * static_cast<float>(UnpackQ3KScale(scales, sub_block));
    const int32_t two = twos[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2) & 3;
    const int32_t high = high_bits[i % 32] >> (i / 32) & 1;
    out[i] = sub_scale * static_cast<float>(two - (high == 1 ? 0 : 4));
  }
}

// d f16, dmin f16, 12 bytes of 6-bit scales and minima, 128 bytes of nibbles: of each 32 bytes the
// low nibbles are one sub-block of 32, the high nibbles the next.
void DequantizeQ4_K(const uint8_t* block, float* out) {
  const float scale = LoadHalf(block);
  const float minimum = LoadHalf(block + 2);
  const uint8_t* nibbles = block + 16;
  for (int sub_block = 0; sub_block < 8; ++sub_block) {
    const KScaleMin packed = UnpackQ4KScaleMin(block + 4, static_cast<uint32_t>(sub_block));
    const float sub_scale = scale * static_cast<float>(packed.scale);
    const float sub_minimum = minimum * static_cast<float>(packed.minimum);
    for (int i = 0; i < 32; ++i) {
      const int32_t nibble = nibbles[sub_block / 2 * 32 + i] >> (sub_block % 2 * 4) & 0xf;
      out[sub_block * 32 + i] = sub_scale * static_cast<float>(nibble) - sub_minimum;
    }
  }
}

// As Q4_K, with 32 bytes of high bits (bit = sub-block) between the scales and the nibbles.
void DequantizeQ5_K(const uint8_t* block, float* out) {
  const float scale = LoadHalf(block);
  const float minimum = LoadHalf(block + 2);
  const uint8_t* high_bits = block + 16;
  const uint8_t* nibbles = block + 48;
  for (int sub_block = 0; sub_block < 8; ++sub_block) {
    const KScaleMin packed = UnpackQ4KScaleMin(block + 4, static_cast<uint32_t>(sub_block));
    const float sub_scale = scale * static_cast<float>(packed.scale);
    const float sub_minimum = minimum * static_cast<float>(packed.minimum);
    for (int i = 0; i < 32; ++i) {
      const int32_t nibble = nibbles[sub_block / 2 * 32 + i] >> (sub_block % 2 * 4) & 0xf;
      const int32_t high = high_bits[i] >> sub_block & 1;
      out[sub_block * 32 + i] = sub_scale * static_cast<float>(nibble + high * 16) - sub_minimum;
    }
  }
}

// 128 bytes of nibbles, 64 bytes of 2-bit high parts, 16 signed scales, d f16. Each half of 128
// weights has 64 + 32 bytes; in it weight i uses nibble byte i % 64 (high nibble from 64 on) and
// high byte i % 32, shift 2 * (i / 32).
void DequantizeQ6_K(const uint8_t* block, float* out) {
  const float scale = LoadHalf(block + 208);
  for (int half = 0; half < 2; ++half) {
    const uint8_t* nibbles = block + half * 64;
    const uint8_t* high_parts = block + 128 + half * 32;
    const uint8_t* scales = block + 192 + half * 8;
    for (int i = 0; i < 128; ++i) {
      const int32_t nibble = nibbles[i % 64] >> (i / 64 * 4) & 0xf;
      const int32_t high = high_parts[i % 32] >> (i / 32 * 2) & 3;
      const float sub_scale = scale * static_cast<float>(static_cast<int8_t>(scales[i / 16]));
      out[half * 128 + i] = sub_scale * static_cast<float>((nibble | high << 4) - 32);
    }
  }
}

// d f16, nibbles as in Q4_0, each an index into the level table.
void DequantizeIQ4_NL(const uint8_t* block, float* out) {
  const float scale = LoadHalf(block);
  const uint8_t* nibbles = block + 2;
  for (int i = 0; i < 16; ++i) {
    out[i] = scale * static_cast<float>(kIq4NlLevels[nibbles[i] & 0xf]);
    out[i + 16] = scale * static_cast<float>(kIq4NlLevels[nibbles[i] >> 4]);
  }
}

using DequantizeBlock = void (*)(const uint8_t* block, float* out);

DequantizeBlock FindDequantizeBlock(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return DequantizeF32;
    case DType::kF16:
      return DequantizeF16;
    case DType::kBF16:
      return DequantizeBF16;
    case DType::kQ4_0:
      return DequantizeQ4_0;
    case DType::kQ4_1:
      return DequantizeQ4_1;
    case DType::kQ5_0:
      return DequantizeQ5_0;
    case DType::kQ5_1:
      return DequantizeQ5_1;
    case DType::kQ8_0:
      return DequantizeQ8_0;
    case DType::kQ2_K:
      return DequantizeQ2_K;
    case DType::kQ3_K:
      return DequantizeQ3_K;
    case DType::kQ4_K:
      return DequantizeQ4_K;
    case DType::kQ5_K:
      return DequantizeQ5_K;
    case DType::kQ6_K:
      return DequantizeQ6_K;
    case DType::kIQ4_NL:
      return DequantizeIQ4_NL;
    default:
      return nullptr;
  }
}

}  // namespace

KScaleMin UnpackQ4KScaleMin(const uint8_t* scales, uint32_t index) {
  DCHECK(index < 8);
  if (index < 4) {
    return {static_cast<uint8_t>(scales[index] & 63), static_cast<uint8_t>(scales[index + 4] & 63)};
  }
  const uint8_t low = scales[index + 4];
  return {static_cast<uint8_t>((low & 0xf) | (scales[index - 4] >> 6) << 4),
          static_cast<uint8_t>((low >> 4) | (scales[index] >> 6) << 4)};
}

int32_t UnpackQ3KScale(const uint8_t* scales, uint32_t index) {
  DCHECK(index < 16);
  const int32_t low = index < 8 ? scales[index] & 0xf : scales[index - 8] >> 4;
  const int32_t high = scales[8 + index % 4] >> (index / 4 * 2) & 3;
  return (low | high << 4) - 32;
}

void DequantizeRow(DType dtype, const std::byte* blocks, uint32_t column_count, float* out) {
  const DTypeInfo& info = GetDType(dtype);
  const DequantizeBlock dequantize_block = FindDequantizeBlock(dtype);
  CHECK(dequantize_block != nullptr);
  CHECK(column_count % info.block_length == 0);
  const auto* block = reinterpret_cast<const uint8_t*>(blocks);
  for (uint32_t column = 0; column < column_count; column += info.block_length) {
    dequantize_block(block, out + column);
    block += info.block_size_bytes;
  }
}

}  // namespace nonstop
