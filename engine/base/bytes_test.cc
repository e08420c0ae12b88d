// Loads, checked sizes and the aligned buffer.
#include "base/bytes.h"

#include <gtest/gtest.h>

namespace nonstop {
namespace {

TEST(Bytes, LoadsLittleEndianFromAnyAddress) {
  const uint8_t bytes[] = {0xff, 0x01, 0x02, 0x03, 0x84};
  EXPECT_EQ(LoadLe<uint32_t>(bytes + 1), 0x84030201u);
  EXPECT_EQ(LoadLe<int16_t>(bytes + 3), -31'741);  // 0x8403
  uint8_t out[3] = {9, 9, 9};
  StoreLe<uint16_t>(out + 1, 0x1234);
  EXPECT_EQ(out[0], 9);
  EXPECT_EQ(out[1], 0x34);
  EXPECT_EQ(out[2], 0x12);
}

TEST(Bytes, CheckedArithmeticNoticesOverflow) {
  uint64_t out = 0;
  EXPECT_TRUE(CheckedMul(uint64_t{1} << 32, (uint64_t{1} << 32) - 1, &out));
  EXPECT_EQ(out, 0xffff'ffff'0000'0000u);
  EXPECT_FALSE(CheckedMul(uint64_t{1} << 32, uint64_t{1} << 32, &out));
  EXPECT_TRUE(CheckedMul(UINT64_MAX, 0, &out));
  EXPECT_EQ(out, 0u);
  EXPECT_TRUE(CheckedAdd(UINT64_MAX - 1, 1, &out));
  EXPECT_EQ(out, UINT64_MAX);
  EXPECT_FALSE(CheckedAdd(UINT64_MAX, 1, &out));
}

TEST(Bytes, RoundsUp) {
  EXPECT_EQ(RoundUp(0, 32), 0);
  EXPECT_EQ(RoundUp(1, 32), 32);
  EXPECT_EQ(RoundUp(64, 32), 64);
  EXPECT_EQ(DivideRoundUp(65, 32), 3);
}

TEST(Bytes, BuffersAreAlignedZeroedAndMovable) {
  Result<AlignedBuffer> made = AlignedBuffer::Create(1'000);
  ASSERT_TRUE(made.ok());
  AlignedBuffer buffer = *std::move(made);
  ASSERT_EQ(buffer.size_bytes(), 1'000u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % AlignedBuffer::kAlignment, 0u);
  for (const std::byte byte : buffer.span()) EXPECT_EQ(byte, std::byte{0});
  const std::byte* data = buffer.data();
  AlignedBuffer moved = std::move(buffer);
  EXPECT_EQ(moved.data(), data);
  EXPECT_EQ(buffer.data(), nullptr);  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(buffer.size_bytes(), 0u);
}

TEST(Bytes, ImpossibleBufferSizesAreErrors) {
  for (const uint64_t size_bytes : {UINT64_MAX, UINT64_MAX - 64}) {
    const Result<AlignedBuffer> buffer = AlignedBuffer::CreateUninitialized(size_bytes);
    ASSERT_FALSE(buffer.ok());
    EXPECT_EQ(buffer.error().code, ErrorCode::kOutOfMemory);
  }
  EXPECT_TRUE(AlignedBuffer::Create(0).ok());
}

}  // namespace
}  // namespace nonstop
