#include "text/min_heap.h"

#include <algorithm>
#include <functional>

#include "base/check.h"

namespace nonstop {

void MinHeap::Push(uint32_t upper, uint32_t lower) {
  keys_.push_back(static_cast<uint64_t>(upper) << 32 | lower);
  std::push_heap(keys_.begin(), keys_.end(), std::greater<>());
}

uint64_t MinHeap::Pop() {
  DCHECK(!keys_.empty());
  std::pop_heap(keys_.begin(), keys_.end(), std::greater<>());
  const uint64_t key = keys_.back();
  keys_.pop_back();
  return key;
}

}  // namespace nonstop
