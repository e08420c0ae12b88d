#include "abi/linear_memory.h"

namespace nonstop::abi {

uint64_t MemorySizeBytes() {
#if defined(__wasm__)
  return static_cast<uint64_t>(__builtin_wasm_memory_size(0)) << 16;
#else
  return UINT32_MAX;
#endif
}

Result<std::string> Text(uint32_t ptr, uint32_t size_bytes, const char* what) {
  ASSIGN_OR_RETURN(const std::span<const char> bytes, View<char>(ptr, size_bytes, what));
  return std::string(bytes.data(), bytes.size());
}

}  // namespace nonstop::abi
