// What the store refuses before a file is read. That it packs right, the golden tests say.
#include "model/weights.h"

#include <gtest/gtest.h>

namespace nonstop {
namespace {

GgufTensor Matrix(uint64_t column_count, uint64_t row_count) {
  const uint64_t size_bytes = 4 * column_count * row_count;
  return {"w", DType::kF32, 2, {column_count, row_count, 1, 1}, 0, size_bytes, 0};
}

Status PushFirstByte(WeightStore& weights, const GgufTensor& tensor) {
  const std::byte first{};
  return weights.Push({&tensor, 0, {&first, 1}});
}

TEST(WeightStore, WhatCannotBeAddressedIsRefusedAtItsFirstByte) {
  const GgufTensor tensor = Matrix(64, 64);
  // Two files of a split model: the sum counts, as soon as it is known.
  WeightStore weights({.limit_bytes = 20'000});
  weights.ReserveMemory({&tensor, 1});
  EXPECT_TRUE(PushFirstByte(weights, tensor).ok());
  weights.ReserveMemory({&tensor, 1});
  const Status status = PushFirstByte(weights, tensor);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kOutOfMemory);
  EXPECT_NE(status.error().message.find("more than the engine can address (20000)."),
            std::string::npos);
}

}  // namespace
}  // namespace nonstop
