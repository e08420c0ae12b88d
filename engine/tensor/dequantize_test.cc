// The oracle itself is judged by llama.cpp's own dequantize_row_* (tests/data/dequant.json).
#include "tensor/dequantize.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/half.h"
#include "base/test_files.h"
#include "base/test_json.h"

namespace nonstop {
namespace {

std::vector<std::byte> FromHex(std::string_view hex) {
  std::vector<std::byte> bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    const std::string digits(hex.substr(i, 2));
    bytes.push_back(static_cast<std::byte>(std::strtoul(digits.c_str(), nullptr, 16)));
  }
  return bytes;
}

std::vector<float> Dequantize(DType dtype, const std::vector<std::byte>& bytes) {
  const DTypeInfo& info = GetDType(dtype);
  std::vector<float> out(bytes.size() / info.block_size_bytes * info.block_length);
  DequantizeRow(dtype, bytes.data(), static_cast<uint32_t>(out.size()), out.data());
  return out;
}

const DTypeInfo* FindByName(std::string_view name) {
  for (const DTypeInfo& info : AllDTypes()) {
    if (name == info.name) return &info;
  }
  return nullptr;
}

// tests/data/dequant.json holds blocks and what llama.cpp's dequantize_row_* make of them.
TEST(Dequantize, EqualsLlamaCppBitForBit) {
  const auto file = ReadTestFile(TestDataPath("dequant.json"));
  ASSERT_TRUE(file.ok()) << file.error().message;
  const TestJson cases =
      TestJson::Parse({reinterpret_cast<const char*>(file->data()), file->size()});
  size_t type_count = 0;
  for (const TestJson& row : cases) {
    const std::string& name = row["type"].AsString();
    const DTypeInfo* info = FindByName(name);
    ASSERT_NE(info, nullptr) << name;
    EXPECT_EQ(info->block_length, row["block_values"].AsInt()) << name;
    EXPECT_EQ(info->block_size_bytes, row["block_bytes"].AsInt()) << name;
    const std::vector<float> values = Dequantize(info->dtype, FromHex(row["bytes"].AsString()));
    ASSERT_EQ(values.size(), row["values"].size()) << name;
    for (size_t i = 0; i < values.size(); ++i) {
      const float wanted = row["values"][i].AsFloat();
      ASSERT_EQ(std::bit_cast<uint32_t>(values[i]), std::bit_cast<uint32_t>(wanted))
          << name << " weight " << i << ": " << values[i] << " against " << wanted;
    }
    ++type_count;
  }
  EXPECT_EQ(type_count, 13u);  // every computed type but F32
}

TEST(Dequantize, KnowsEveryComputedType) {
  for (const DTypeInfo& info : AllDTypes()) {
    if (!info.is_computed) continue;
    const std::vector<std::byte> zeros(info.block_size_bytes * 2u);
    for (const float value : Dequantize(info.dtype, zeros)) EXPECT_EQ(value, 0.0f) << info.name;
  }
}

TEST(Dequantize, F32IsCopied) {
  const float values[] = {0.0f, -0.0f, 1.5f, -3e38f, 1e-45f};
  std::vector<std::byte> bytes(sizeof(values));
  std::memcpy(bytes.data(), values, sizeof(values));
  const std::vector<float> out = Dequantize(DType::kF32, bytes);
  EXPECT_EQ(std::memcmp(out.data(), values, sizeof(values)), 0);
}

TEST(Dequantize, NeedsNoAlignment) {
  for (const DTypeInfo& info : AllDTypes()) {
    if (!info.is_computed) continue;
    std::vector<std::byte> bytes(info.block_size_bytes * 3u);
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i % 37);
    std::vector<std::byte> shifted(bytes.size() + 1);
    std::memcpy(shifted.data() + 1, bytes.data(), bytes.size());
    const std::vector<float> wanted = Dequantize(info.dtype, bytes);
    std::vector<float> out(wanted.size() + 1, -7.0f);
    DequantizeRow(info.dtype, shifted.data() + 1, static_cast<uint32_t>(wanted.size()), out.data());
    EXPECT_EQ(out.back(), -7.0f) << info.name << " wrote past the row.";
    out.pop_back();
    EXPECT_EQ(out, wanted) << info.name;
  }
}

TEST(Dequantize, KeepsNanAndInfinityOfScales) {
  std::vector<std::byte> block(18, std::byte{0x99});  // nibbles 9: +1
  const uint16_t infinity = FloatToHalf(std::numeric_limits<float>::infinity());
  std::memcpy(block.data(), &infinity, 2);
  EXPECT_TRUE(std::isinf(Dequantize(DType::kQ4_0, block)[31]));
  const uint16_t nan = 0x7e00;
  std::memcpy(block.data(), &nan, 2);
  EXPECT_TRUE(std::isnan(Dequantize(DType::kQ4_0, block)[0]));
}

TEST(Dequantize, UnpacksKScalesFromTheirSixBits) {
  // Scales 0..7 and minima 63..56 packed by hand as get_scale_min_k4 in ggml-quants.c reads them.
  uint8_t packed[12] = {};
  for (uint32_t j = 0; j < 8; ++j) {
    const uint32_t scale = j + 30;
    const uint32_t minimum = 63 - j;
    if (j < 4) {
      packed[j] |= static_cast<uint8_t>(scale);
      packed[j + 4] |= static_cast<uint8_t>(minimum);
    } else {
      packed[j + 4] |= static_cast<uint8_t>((scale & 0xf) | (minimum & 0xf) << 4);
      packed[j - 4] |= static_cast<uint8_t>((scale >> 4) << 6);
      packed[j] |= static_cast<uint8_t>((minimum >> 4) << 6);
    }
  }
  for (uint32_t j = 0; j < 8; ++j) {
    EXPECT_EQ(UnpackQ4KScaleMin(packed, j).scale, j + 30);
    EXPECT_EQ(UnpackQ4KScaleMin(packed, j).minimum, 63 - j);
  }
}

}  // namespace
}  // namespace nonstop
