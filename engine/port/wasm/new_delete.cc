// operator new and delete over malloc. The library's own bring all of printf for one message; ours
// end the module through CheckFailed, which says what happened. (Large buffers do not come this
// way: they are an AlignedBuffer, whose failure is an Error.)
#include <cstdlib>
#include <new>

#include "base/check.h"

namespace {

void* AllocateOrDie(size_t size_bytes, size_t alignment) {
  if (size_bytes == 0) size_bytes = 1;
  void* memory =
      alignment <= alignof(max_align_t)
          ? std::malloc(size_bytes)
          : std::aligned_alloc(alignment, (size_bytes + alignment - 1) & ~(alignment - 1));
  CHECK(memory != nullptr && "memory for a small object");
  return memory;
}

}  // namespace

void* operator new(size_t size_bytes) { return AllocateOrDie(size_bytes, 1); }
void* operator new[](size_t size_bytes) { return AllocateOrDie(size_bytes, 1); }
void* operator new(size_t size_bytes, std::align_val_t alignment) {
  return AllocateOrDie(size_bytes, static_cast<size_t>(alignment));
}
void* operator new[](size_t size_bytes, std::align_val_t alignment) {
  return AllocateOrDie(size_bytes, static_cast<size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
