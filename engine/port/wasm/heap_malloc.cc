// malloc and free of a module without threads, in place of the C library's: a tenth of its size.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "port/heap.h"

extern "C" std::byte __heap_base;  // where the linker ends its own data

namespace nonstop {
namespace {

constexpr size_t kPageBytes = 65'536;

Heap::Memory GrowMemory(size_t size_bytes) {
  static bool has_begun = false;
  if (!has_begun) {  // what the module begins with comes first
    has_begun = true;
    const uintptr_t begin = (reinterpret_cast<uintptr_t>(&__heap_base) + 15) & ~uintptr_t{15};
    const uintptr_t end = __builtin_wasm_memory_size(0) * kPageBytes;
    if (end - begin >= size_bytes) return {reinterpret_cast<std::byte*>(begin), end - begin};
  }
  const size_t page_count = (size_bytes + kPageBytes - 1) / kPageBytes;
  const size_t grown = __builtin_wasm_memory_grow(0, page_count);
  if (grown == SIZE_MAX) return {};
  return {reinterpret_cast<std::byte*>(grown * kPageBytes), page_count * kPageBytes};
}

constinit Heap heap{GrowMemory};

}  // namespace
}  // namespace nonstop

extern "C" {

void* malloc(size_t size_bytes) { return nonstop::heap.Allocate(size_bytes); }
void* aligned_alloc(size_t alignment, size_t size_bytes) {
  return nonstop::heap.Allocate(size_bytes, alignment);
}
void* realloc(void* memory, size_t size_bytes) {
  return nonstop::heap.Reallocate(memory, size_bytes);
}
void* calloc(size_t count, size_t size_bytes) {
  size_t all = 0;
  if (__builtin_mul_overflow(count, size_bytes, &all)) return nullptr;
  void* memory = malloc(all);
  if (memory != nullptr) std::memset(memory, 0, all);
  return memory;
}
void free(void* memory) { nonstop::heap.Free(memory); }

}  // extern "C"
