// The bytes of the KV cache's pages on the CPU: allocated when first used, kept for reuse.
// A page holds kKvPageTokenCount tokens of every layer:
// (layer, K|V, kv_head, token, head_dim) of KvType.
#pragma once

#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "cpu/ops.h"

namespace nonstop::cpu {

struct KvShape {
  KvType type = KvType::kF16;
  uint32_t layer_count = 0;
  uint32_t kv_head_count = 0;
  uint32_t head_dim = 0;

  uint64_t row_size_bytes() const { return head_dim * (type == KvType::kF16 ? 2u : 4u); }
  uint64_t head_size_bytes() const { return row_size_bytes() * kKvPageTokenCount; }
  uint64_t page_size_bytes() const { return head_size_bytes() * kv_head_count * 2 * layer_count; }
  // From a page's base to one head's K rows, or V rows.
  uint64_t HeadOffset(uint32_t layer, bool is_value, uint32_t kv_head) const {
    return ((uint64_t{layer} * 2 + (is_value ? 1 : 0)) * kv_head_count + kv_head) *
           head_size_bytes();
  }
};

class KvStore {
 public:
  explicit KvStore(const KvShape& shape) : shape_(shape) {}

  const KvShape& shape() const { return shape_; }
  Status EnsurePage(uint32_t page);
  std::byte* page(uint32_t page) { return pages_[page].data(); }
  uint64_t size_bytes() const { return size_bytes_; }

 private:
  KvShape shape_;
  std::vector<AlignedBuffer> pages_;
  uint64_t size_bytes_ = 0;
};

}  // namespace nonstop::cpu
