#include "session/page_pool.h"

#include <gtest/gtest.h>

namespace nonstop {
namespace {

std::vector<uint32_t> Pages(const PageTable& table) {
  return {table.pages().begin(), table.pages().end()};
}

TEST(PagePool, GivesTheSmallestFreePage) {
  PagePool pool(3);
  EXPECT_EQ(*pool.Allocate(), 0u);
  EXPECT_EQ(*pool.Allocate(), 1u);
  pool.Release(0);
  EXPECT_EQ(*pool.Allocate(), 0u);
  EXPECT_EQ(*pool.Allocate(), 2u);
  EXPECT_EQ(pool.Allocate().error().message, "All (3) pages of the KV cache are in use.");
}

TEST(PagePool, KeepsASharedPageUntilItsLastReference) {
  PagePool pool(1);
  const uint32_t page = *pool.Allocate();
  pool.AddReference(page);
  pool.Release(page);
  EXPECT_EQ(pool.used_count(), 1u);
  pool.Release(page);
  EXPECT_EQ(pool.used_count(), 0u);
}

TEST(PageTable, HoldsOnePageForEach256Tokens) {
  PagePool pool(4);
  PageTable table(&pool);
  ASSERT_TRUE(table.Reserve(1).ok());
  EXPECT_EQ(Pages(table), (std::vector<uint32_t>{0}));
  ASSERT_TRUE(table.Reserve(256).ok());
  EXPECT_EQ(table.pages().size(), 1u);
  ASSERT_TRUE(table.Reserve(257).ok());
  EXPECT_EQ(Pages(table), (std::vector<uint32_t>{0, 1}));
  table.Truncate(256);
  EXPECT_EQ(Pages(table), (std::vector<uint32_t>{0}));
  EXPECT_EQ(pool.used_count(), 1u);
}

TEST(PageTable, ChangesNothingWhenThereIsNotEnough) {
  PagePool pool(2);
  PageTable table(&pool);
  ASSERT_TRUE(table.Reserve(256).ok());
  EXPECT_EQ(table.Reserve(256 * 4).error().code, ErrorCode::kContextOverflow);
  EXPECT_EQ(table.pages().size(), 1u);
  EXPECT_EQ(pool.used_count(), 1u);
}

TEST(PageTable, GivesItsPagesBack) {
  PagePool pool(2);
  {
    PageTable table(&pool);
    ASSERT_TRUE(table.Reserve(512).ok());
    PageTable moved(std::move(table));
    EXPECT_EQ(moved.pages().size(), 2u);
  }
  EXPECT_EQ(pool.used_count(), 0u);
}

}  // namespace
}  // namespace nonstop
