#include "base/bytes.h"

#include <cstdlib>

namespace nonstop {

Result<AlignedBuffer> AlignedBuffer::CreateUninitialized(uint64_t size_bytes) {
  if (size_bytes == 0) return AlignedBuffer();
  // One spare cache line: kernels may load a whole vector that starts inside the buffer.
  const uint64_t padded = RoundUp<uint64_t>(size_bytes, kAlignment) + kAlignment;
  void* data = padded < size_bytes || padded > SIZE_MAX
                   ? nullptr
                   : std::aligned_alloc(kAlignment, static_cast<size_t>(padded));
  if (data == nullptr) {
    return MakeError(ErrorCode::kOutOfMemory, "No memory for a buffer of (%llu) bytes.",
                     static_cast<unsigned long long>(size_bytes));
  }
  return AlignedBuffer(static_cast<std::byte*>(data), static_cast<size_t>(size_bytes));
}

Result<AlignedBuffer> AlignedBuffer::Create(uint64_t size_bytes) {
  ASSIGN_OR_RETURN(AlignedBuffer buffer, CreateUninitialized(size_bytes));
  if (size_bytes != 0) std::memset(buffer.data(), 0, buffer.size_bytes());
  return buffer;
}

AlignedBuffer::~AlignedBuffer() { std::free(data_); }

}  // namespace nonstop
