// Many short texts with their indices: one blob, one offset each, and an open-addressing hash table
// of indices. No allocation per text: 262,144 tokens of 2 MB cost 5 MB in three allocations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace nonstop {

uint64_t HashText(std::string_view text);

class TextTable {
 public:
  static constexpr uint32_t kAbsent = 0xffffffffu;
  // With a load of at most 2/3, honest data stays far below; a file made to collide is refused.
  static constexpr uint32_t kProbeLimit = 4096;

  enum class Added : uint8_t { kNew, kPresent, kTooManyCollisions };

  // Room for `count` texts of `size_bytes` together. It grows by itself where the guess was low.
  void Reserve(size_t count, size_t size_bytes);

  // kNew: the text's index is size() - 1. kPresent: nothing changed.
  Added Add(std::string_view text);
  uint32_t Find(std::string_view text) const;

  uint32_t size() const { return static_cast<uint32_t>(starts_.size() - 1); }
  std::string_view operator[](uint32_t index) const {
    return std::string_view(blob_).substr(starts_[index], starts_[index + 1] - starts_[index]);
  }
  size_t longest_size_bytes() const { return longest_size_bytes_; }
  size_t memory_size_bytes() const;

 private:
  // The slot that holds `text`, or the free one where it belongs; kAbsent past the probe limit.
  uint32_t FindSlot(std::string_view text) const;
  bool Rehash(size_t slot_count);

  std::string blob_;
  std::vector<uint32_t> starts_ = {0};
  std::vector<uint32_t> slots_;  // a power of two; kAbsent is free
  size_t longest_size_bytes_ = 0;
};

}  // namespace nonstop
