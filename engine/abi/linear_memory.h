// Arguments of the exported functions: offsets in linear memory, checked before they are followed.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"

#define NS_EXPORT(name) __attribute__((export_name(#name)))

namespace nonstop::abi {

template <class T>
T* Pointer(uint32_t ptr) {
  return reinterpret_cast<T*>(static_cast<uintptr_t>(ptr));
}
inline uint32_t Offset(const void* pointer) {
  return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(pointer));
}

uint64_t MemorySizeBytes();

// A host's array, checked against the memory there is.
template <class T>
Result<std::span<const T>> View(uint32_t ptr, uint32_t count, const char* what) {
  if (count == 0) return std::span<const T>();
  if (ptr == 0 || uint64_t{ptr} + uint64_t{count} * sizeof(T) > MemorySizeBytes()) {
    return MakeError(ErrorCode::kInvalidArgument, "Argument %s (%u, %u) leaves the memory.", what,
                     ptr, count);
  }
  return std::span<const T>(Pointer<const T>(ptr), count);
}

Result<std::string> Text(uint32_t ptr, uint32_t size_bytes, const char* what);

}  // namespace nonstop::abi
