// Numbers of KV pages: which are free, and how many sequences share each. Backend-neutral; the
// bytes belong to the backend (cpu/kv_store.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"

namespace nonstop {

class PagePool {
 public:
  explicit PagePool(uint32_t page_count) : page_count_(page_count) {}

  Result<uint32_t> Allocate();       // with one reference; the smallest free number
  void AddReference(uint32_t page);  // a prefix that is shared
  void Release(uint32_t page);       // free when nobody refers to it
  uint32_t reference_count(uint32_t page) const { return reference_counts_[page]; }
  uint32_t used_count() const { return used_count_; }
  uint32_t page_count() const { return page_count_; }

 private:
  uint32_t page_count_;
  uint32_t used_count_ = 0;
  std::vector<uint32_t> reference_counts_;
};

// A sequence's pages in order. Truncating gives back the pages that no kept token lies in.
class PageTable {
 public:
  explicit PageTable(PagePool* pool) : pool_(pool) {}
  PageTable(PageTable&& other) noexcept : pool_(other.pool_), pages_(std::move(other.pages_)) {
    other.pages_.clear();
  }
  PageTable& operator=(PageTable&&) = delete;
  ~PageTable() { Truncate(0); }

  // Room for `token_count` tokens in all. On error nothing has changed.
  Status Reserve(uint32_t token_count);
  void Truncate(uint32_t token_count);
  std::span<const uint32_t> pages() const { return pages_; }

 private:
  PagePool* pool_;
  std::vector<uint32_t> pages_;
};

}  // namespace nonstop
