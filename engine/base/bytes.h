// Little-endian loads from unaligned bytes, checked arithmetic on sizes from outside, and the
// aligned buffer that weights, activations and the KV cache live in.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

#include "base/result.h"

namespace nonstop {

static_assert(std::endian::native == std::endian::little);

template <class T>
T LoadLe(const void* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

template <class T>
void StoreLe(void* bytes, T value) {
  std::memcpy(bytes, &value, sizeof(T));
}

inline bool CheckedMul(uint64_t a, uint64_t b, uint64_t* out) {
  return !__builtin_mul_overflow(a, b, out);
}
inline bool CheckedAdd(uint64_t a, uint64_t b, uint64_t* out) {
  return !__builtin_add_overflow(a, b, out);
}

template <class T>
constexpr T RoundUp(T value, T multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

template <class T>
constexpr T DivideRoundUp(T value, T divisor) {
  return (value + divisor - 1) / divisor;
}

// Owns `size_bytes` bytes at a 64-byte boundary, zeroed. Allocation can fail (a wasm memory has a
// maximum), so it is a Result and not a constructor.
class AlignedBuffer {
 public:
  static constexpr size_t kAlignment = 64;

  static Result<AlignedBuffer> Create(uint64_t size_bytes);
  // Not zeroed: for what is overwritten whole (weights).
  static Result<AlignedBuffer> CreateUninitialized(uint64_t size_bytes);

  AlignedBuffer() = default;
  AlignedBuffer(AlignedBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        size_bytes_(std::exchange(other.size_bytes_, 0)) {}
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_bytes_, other.size_bytes_);
    return *this;
  }
  AlignedBuffer(const AlignedBuffer&) = delete;
  AlignedBuffer& operator=(const AlignedBuffer&) = delete;
  ~AlignedBuffer();

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  size_t size_bytes() const { return size_bytes_; }
  std::span<std::byte> span() { return {data_, size_bytes_}; }
  std::span<const std::byte> span() const { return {data_, size_bytes_}; }

 private:
  AlignedBuffer(std::byte* data, size_t size_bytes) : data_(data), size_bytes_(size_bytes) {}

  std::byte* data_ = nullptr;
  size_t size_bytes_ = 0;
};

}  // namespace nonstop
