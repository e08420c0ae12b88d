// A lock around the allocator, for the modules with a shared memory.
//
// wasi-libc's dlmalloc knows no threads. The linker's --wrap sends every call to the allocator,
// libc++'s operator new included, through these functions. Kernels do not allocate, so the lock
// is almost never contended; a waiter spins for a moment and then sleeps.
// Non-goal: fairness. Function-local statics stay unguarded: give them no first use in a worker.

#include <atomic>
#include <cstddef>
#include <cstdint>

extern "C" {
void* __real_malloc(size_t size_bytes);
void __real_free(void* block);
void* __real_calloc(size_t count, size_t size_bytes);
void* __real_realloc(void* block, size_t size_bytes);
void* __real_aligned_alloc(size_t alignment, size_t size_bytes);
int __real_posix_memalign(void** block, size_t alignment, size_t size_bytes);
}

namespace {

constexpr int kSpinCount = 1000;
// The three states of the lock word.
constexpr uint32_t kFree = 0;
constexpr uint32_t kHeld = 1;
constexpr uint32_t kHeldWithSleepers = 2;

std::atomic<uint32_t> heap_state{kFree};

int* StateAddress() { return reinterpret_cast<int*>(&heap_state); }

class HeapLock {
 public:
  HeapLock() {
    for (int spin = 0; spin < kSpinCount; ++spin) {
      uint32_t expected = kFree;
      if (heap_state.compare_exchange_weak(expected, kHeld, std::memory_order_acquire)) return;
    }
    while (heap_state.exchange(kHeldWithSleepers, std::memory_order_acquire) != kFree) {
      __builtin_wasm_memory_atomic_wait32(StateAddress(), static_cast<int>(kHeldWithSleepers), -1);
    }
  }
  ~HeapLock() {
    if (heap_state.exchange(kFree, std::memory_order_release) == kHeldWithSleepers) {
      __builtin_wasm_memory_atomic_notify(StateAddress(), 1);
    }
  }
  HeapLock(const HeapLock&) = delete;
  HeapLock& operator=(const HeapLock&) = delete;
};

}  // namespace

extern "C" {

void* __wrap_malloc(size_t size_bytes) {
  HeapLock lock;
  return __real_malloc(size_bytes);
}

void __wrap_free(void* block) {
  HeapLock lock;
  __real_free(block);
}

void* __wrap_calloc(size_t count, size_t size_bytes) {
  HeapLock lock;
  return __real_calloc(count, size_bytes);
}

void* __wrap_realloc(void* block, size_t size_bytes) {
  HeapLock lock;
  return __real_realloc(block, size_bytes);
}

void* __wrap_aligned_alloc(size_t alignment, size_t size_bytes) {
  HeapLock lock;
  return __real_aligned_alloc(alignment, size_bytes);
}

int __wrap_posix_memalign(void** block, size_t alignment, size_t size_bytes) {
  HeapLock lock;
  return __real_posix_memalign(block, alignment, size_bytes);
}

}  // extern "C"
