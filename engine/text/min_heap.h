// A heap of 64-bit keys, the smallest on top: rank or order in the upper half, position in the
// lower. One copy of the code for all that queue (std::sort and std::push_heap are inlined anew
// at every use, which cost 20 KB of wasm here).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace nonstop {

class MinHeap {
 public:
  void Push(uint32_t upper, uint32_t lower);
  uint64_t Pop();  // of a heap that is not empty
  bool empty() const { return keys_.empty(); }
  size_t size() const { return keys_.size(); }
  void clear() { keys_.clear(); }

 private:
  std::vector<uint64_t> keys_;
};

}  // namespace nonstop
