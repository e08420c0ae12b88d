// The heap over memory of the test's own: everything that is given out keeps what was written to
// it, is aligned, and what is given back is used again.
#include "port/heap.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <vector>

namespace nonstop {
namespace {

constexpr size_t kPieceBytes = 1 << 16;
constexpr size_t kMostBytes = 8u << 20;

// Memory that grows as a module's does; with gaps where the test wants them.
struct Source {
  alignas(16) std::byte memory[kMostBytes];
  size_t used = 0;
  size_t gap = 0;
};
Source* source = nullptr;

Heap::Memory GrowSource(size_t size_bytes) {
  const size_t size = (size_bytes + kPieceBytes - 1) / kPieceBytes * kPieceBytes;
  source->used += source->gap;
  if (size > kMostBytes - std::min(source->used, kMostBytes)) return {};
  const Heap::Memory memory = {source->memory + source->used, size};
  source->used += size;
  return memory;
}

class HeapTest : public testing::Test {
 protected:
  HeapTest() : source_(std::make_unique<Source>()) { source = source_.get(); }

  std::unique_ptr<Source> source_;
  Heap heap_{GrowSource};
};

TEST_F(HeapTest, MemoryIsAligned) {
  for (size_t alignment = 16; alignment <= 4096; alignment *= 2) {
    for (size_t size : {0u, 1u, 16u, 17u, 1000u}) {
      const auto at = reinterpret_cast<uintptr_t>(heap_.Allocate(size, alignment));
      ASSERT_NE(at, 0u);
      EXPECT_EQ(at % alignment, 0u) << alignment << " " << size;
    }
  }
}

TEST_F(HeapTest, WhatIsGivenBackIsJoinedAndUsedAgain) {
  std::vector<void*> memory;
  for (int i = 0; i < 1000; ++i) memory.push_back(heap_.Allocate(100));
  const size_t used = source_->used;
  for (size_t i = 0; i < memory.size(); i += 2) heap_.Free(memory[i]);
  for (size_t i = 1; i < memory.size(); i += 2) heap_.Free(memory[i]);
  EXPECT_NE(heap_.Allocate(used - 1000), nullptr);  // of one piece
  EXPECT_EQ(source_->used, used);
}

TEST_F(HeapTest, PiecesThatFollowEachOtherBecomeOneAndOthersDoNot) {
  void* first = heap_.Allocate(kPieceBytes);
  void* second = heap_.Allocate(kPieceBytes);
  source_->gap = 64;
  void* third = heap_.Allocate(kPieceBytes);
  heap_.Free(second);
  heap_.Free(first);
  heap_.Free(third);
  const size_t used = source_->used;
  EXPECT_NE(heap_.Allocate(3 * kPieceBytes), nullptr);
  EXPECT_EQ(source_->used, used);
}

TEST_F(HeapTest, WithoutMemoryThereIsNone) {
  EXPECT_EQ(heap_.Allocate(kMostBytes), nullptr);
  EXPECT_EQ(heap_.Allocate(SIZE_MAX), nullptr);
  EXPECT_EQ(heap_.Allocate(SIZE_MAX / 2, 4096), nullptr);
  void* memory = heap_.Allocate(10);
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(heap_.Reallocate(memory, kMostBytes), nullptr);
  heap_.Free(memory);
  EXPECT_NE(heap_.Allocate(kMostBytes / 2), nullptr);
}

TEST_F(HeapTest, NothingOverlapsWhateverIsAskedFor) {
  struct Piece {
    std::byte* memory;
    size_t size;
    std::byte value;
  };
  std::mt19937 random(7);
  std::vector<Piece> pieces;
  const auto is_whole = [](const Piece& piece) {
    return std::all_of(piece.memory, piece.memory + piece.size,
                       [&](std::byte value) { return value == piece.value; });
  };
  for (int i = 0; i < 60'000; ++i) {
    const uint32_t choice = random() % 8;
    if (pieces.empty() || (choice < 4 && pieces.size() < 400)) {
      const size_t size = random() % (random() % 20 == 0 ? 20'000 : 200);
      const size_t alignment = size_t{16} << (random() % 10 == 0 ? random() % 6 : 0);
      auto* memory = static_cast<std::byte*>(heap_.Allocate(size, alignment));
      ASSERT_NE(memory, nullptr);
      ASSERT_EQ(reinterpret_cast<uintptr_t>(memory) % alignment, 0u);
      pieces.push_back({memory, size, static_cast<std::byte>(random())});
      std::fill_n(memory, size, pieces.back().value);
      continue;
    }
    Piece& piece = pieces[random() % pieces.size()];
    ASSERT_TRUE(is_whole(piece));
    if (choice == 4) {
      const size_t size = piece.size + random() % 500;
      piece.memory = static_cast<std::byte*>(heap_.Reallocate(piece.memory, size));
      ASSERT_NE(piece.memory, nullptr);
      ASSERT_TRUE(is_whole(piece));
      piece.size = size;
      std::fill_n(piece.memory, size, piece.value);
      continue;
    }
    heap_.Free(piece.memory);
    piece = pieces.back();
    pieces.pop_back();
  }
  for (const Piece& piece : pieces) {
    ASSERT_TRUE(is_whole(piece));
    heap_.Free(piece.memory);
  }
  const size_t used = source_->used;
  EXPECT_NE(heap_.Allocate(used - 100), nullptr);  // all of it is one again
  EXPECT_EQ(source_->used, used);
}

}  // namespace
}  // namespace nonstop
