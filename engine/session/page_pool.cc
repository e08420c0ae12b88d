#include "session/page_pool.h"

#include "base/bytes.h"
#include "cpu/ops.h"

namespace nonstop {

using cpu::kKvPageTokenCount;

Result<uint32_t> PagePool::Allocate() {
  for (uint32_t page = 0; page < reference_counts_.size(); ++page) {
    if (reference_counts_[page] != 0) continue;
    reference_counts_[page] = 1;
    ++used_count_;
    return page;
  }
  if (reference_counts_.size() >= page_count_) {
    return MakeError(ErrorCode::kContextOverflow, "All (%u) pages of the KV cache are in use.",
                     page_count_);
  }
  reference_counts_.push_back(1);
  ++used_count_;
  return static_cast<uint32_t>(reference_counts_.size() - 1);
}

void PagePool::AddReference(uint32_t page) {
  CHECK(page < reference_counts_.size() && reference_counts_[page] != 0);
  ++reference_counts_[page];
}

void PagePool::Release(uint32_t page) {
  CHECK(page < reference_counts_.size() && reference_counts_[page] != 0);
  if (--reference_counts_[page] == 0) --used_count_;
}

Status PageTable::Reserve(uint32_t token_count) {
  const size_t had = pages_.size();
  while (pages_.size() < DivideRoundUp(token_count, kKvPageTokenCount)) {
    Result<uint32_t> page = pool_->Allocate();
    if (!page.ok()) {
      Truncate(static_cast<uint32_t>(had) * kKvPageTokenCount);
      return std::move(page).error();
    }
    pages_.push_back(*page);
  }
  return {};
}

void PageTable::Truncate(uint32_t token_count) {
  while (pages_.size() > DivideRoundUp(token_count, kKvPageTokenCount)) {
    pool_->Release(pages_.back());
    pages_.pop_back();
  }
}

}  // namespace nonstop
