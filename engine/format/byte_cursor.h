// Reads little-endian fields from a prefix of a file. A nullopt means: these bytes have not come
// yet. Never reads past the span, whatever the lengths say.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "base/bytes.h"

namespace nonstop {

class ByteCursor {
 public:
  ByteCursor(std::span<const std::byte> bytes, size_t position)
      : bytes_(bytes), position_(position) {}

  size_t position() const { return position_; }
  uint64_t remaining_size_bytes() const { return bytes_.size() - position_; }

  template <class T>
  std::optional<T> Read() {
    if (remaining_size_bytes() < sizeof(T)) return std::nullopt;
    const T value = LoadLe<T>(bytes_.data() + position_);
    position_ += sizeof(T);
    return value;
  }

  std::optional<std::span<const std::byte>> Take(uint64_t size_bytes) {
    if (remaining_size_bytes() < size_bytes) return std::nullopt;
    const auto taken = bytes_.subspan(position_, static_cast<size_t>(size_bytes));
    position_ += taken.size();
    return taken;
  }

 private:
  std::span<const std::byte> bytes_;
  size_t position_;
};

inline std::string_view AsText(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace nonstop
