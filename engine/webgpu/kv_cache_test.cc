#include "webgpu/kv_cache.h"

#include <gtest/gtest.h>

#include "port/null_gpu.h"

namespace nonstop {
namespace {

// A page of a layer: K and V of 8 heads, 256 tokens, 64 values of f16.
constexpr GpuKvCache::Shape kShape = {
    .layer_count = 10, .head_dim = 64, .kv_head_count = 8, .max_page_count = 100};
constexpr uint64_t kLayerPageBytes = 2 * 8 * 256 * 64 * 2;

std::unique_ptr<GpuKvCache> Create(NullGpu& gpu, const GpuKvCache::Shape& shape) {
  Result<std::unique_ptr<GpuKvCache>> cache = GpuKvCache::Create(&gpu, shape);
  EXPECT_TRUE(cache.ok());
  return std::move(*cache);
}

TEST(GpuKvCache, GroupsAsManyLayersAsABindingHoldsWithAllPages) {
  NullGpu gpu;
  const auto cache = Create(gpu, kShape);
  // 128 MiB hold 256 pages of a layer, so 100 pages of two layers.
  EXPECT_EQ(cache->group_count(), 5u);
  EXPECT_EQ(cache->GroupOf(3), 1u);
  EXPECT_EQ(cache->PlaceOf(2).offset, 0u);
  EXPECT_EQ(cache->PlaceOf(3).offset, kLayerPageBytes / 4);
  EXPECT_EQ(cache->PlaceOf(3).page_words, 2 * kLayerPageBytes / 4);
}

TEST(GpuKvCache, PadsRowsToWholeVectors) {
  NullGpu gpu;
  const auto cache = Create(
      gpu,
      {.layer_count = 1, .head_dim = 20, .kv_head_count = 1, .is_f32 = true, .max_page_count = 1});
  EXPECT_EQ(cache->PlaceOf(0).stride(), 24u);
  EXPECT_EQ(cache->PlaceOf(0).page_words, 2u * 256 * 24);
}

TEST(GpuKvCache, GrowsByCopyingWhatThereIs) {
  NullGpu gpu;
  const auto cache = Create(gpu, kShape);
  EXPECT_TRUE(*cache->Reserve(1));
  const uint32_t first = cache->page_count();
  EXPECT_EQ(gpu.counts().submits, 0u);
  EXPECT_FALSE(*cache->Reserve(first));
  EXPECT_TRUE(*cache->Reserve(first + 1));
  EXPECT_EQ(cache->page_count(), 2 * first);
  EXPECT_EQ(gpu.counts().submits, cache->group_count());
  // The old buffers are gone.
  EXPECT_EQ(gpu.counts().buffer_bytes, cache->size_bytes());
  EXPECT_EQ(cache->size_bytes(), 10 * 2 * first * kLayerPageBytes);
}

TEST(GpuKvCache, SaysWhenALayerIsLargerThanABinding) {
  NullGpu gpu;
  GpuKvCache::Shape shape = kShape;
  shape.max_page_count = 1000;
  const auto cache = Create(gpu, shape);
  EXPECT_EQ(cache->group_count(), 10u);
  Result<bool> grown = cache->Reserve(257);
  ASSERT_FALSE(grown.ok());
  EXPECT_EQ(grown.error().code, ErrorCode::kOutOfMemory);
  EXPECT_TRUE(cache->Reserve(256).ok());
  EXPECT_EQ(cache->page_count(), 256u);
}

}  // namespace
}  // namespace nonstop
