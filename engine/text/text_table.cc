#include "text/text_table.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/bytes.h"

namespace nonstop {
namespace {

constexpr size_t kLeastSlotCount = 16;

size_t SlotCountFor(size_t text_count) {
  return std::bit_ceil(std::max(kLeastSlotCount, text_count + text_count / 2 + 1));
}

}  // namespace

// Multiply and fold, eight bytes at a time: cheap in wasm, which has no 128-bit product.
uint64_t HashText(std::string_view text) {
  constexpr uint64_t kFactor = 0x9e3779b97f4a7c15u;
  uint64_t hash = kFactor ^ text.size();
  const auto mix = [&hash](uint64_t word) {
    hash = (hash ^ word) * kFactor;
    hash ^= hash >> 32;
  };
  size_t i = 0;
  for (; i + 8 <= text.size(); i += 8) mix(LoadLe<uint64_t>(text.data() + i));
  uint64_t rest = 0;
  if (i < text.size()) std::memcpy(&rest, text.data() + i, text.size() - i);
  mix(rest);
  hash *= 0xd6e8feb86659fd93u;
  return hash ^ (hash >> 32);
}

void TextTable::Reserve(size_t count, size_t size_bytes) {
  blob_.reserve(size_bytes);
  starts_.reserve(count + 1);
  if (SlotCountFor(count) > slots_.size()) Rehash(SlotCountFor(count));
}

uint32_t TextTable::FindSlot(std::string_view text) const {
  const size_t mask = slots_.size() - 1;
  size_t slot = HashText(text) & mask;
  for (uint32_t probe = 0; probe < kProbeLimit; ++probe) {
    const uint32_t index = slots_[slot];
    if (index == kAbsent || (*this)[index] == text) return static_cast<uint32_t>(slot);
    slot = (slot + 1) & mask;
  }
  return kAbsent;
}

bool TextTable::Rehash(size_t slot_count) {
  slots_.assign(slot_count, kAbsent);
  for (uint32_t index = 0; index < size(); ++index) {
    const uint32_t slot = FindSlot((*this)[index]);
    if (slot == kAbsent) return false;
    slots_[slot] = index;
  }
  return true;
}

TextTable::Added TextTable::Add(std::string_view text) {
  const size_t slot_count = SlotCountFor(starts_.size());
  if (slot_count > slots_.size() && !Rehash(slot_count)) return Added::kTooManyCollisions;
  const uint32_t slot = FindSlot(text);
  if (slot == kAbsent) return Added::kTooManyCollisions;
  if (slots_[slot] != kAbsent) return Added::kPresent;
  slots_[slot] = size();
  blob_.append(text);
  starts_.push_back(static_cast<uint32_t>(blob_.size()));
  longest_size_bytes_ = std::max(longest_size_bytes_, text.size());
  return Added::kNew;
}

uint32_t TextTable::Find(std::string_view text) const {
  if (slots_.empty() || text.size() > longest_size_bytes_) return kAbsent;
  const uint32_t slot = FindSlot(text);
  return slot == kAbsent ? kAbsent : slots_[slot];
}

size_t TextTable::memory_size_bytes() const {
  return blob_.capacity() + 4 * (starts_.capacity() + slots_.capacity());
}

}  // namespace nonstop
