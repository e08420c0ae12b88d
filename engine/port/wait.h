// Sleep until a word of memory changes: memory.atomic.wait32 in a shared wasm memory, a futex
// natively. A module without shared memory has no other threads and never waits.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/check.h"

#if !defined(__wasm__)
#include <thread>
#endif

namespace nonstop {

// Returns when the word differs from `seen`, when woken, or now and then for no reason.
inline void WaitForChange(std::atomic<uint32_t>& word, uint32_t seen) {
#if defined(__wasm_atomics__)
  __builtin_wasm_memory_atomic_wait32(reinterpret_cast<int*>(&word), static_cast<int>(seen), -1);
#elif defined(__wasm__)
  (void)word;
  (void)seen;
  CHECK(!"a module without shared memory cannot wait");
#else
  word.wait(seen, std::memory_order_acquire);
#endif
}

inline void WakeAll(std::atomic<uint32_t>& word) {
#if defined(__wasm_atomics__)
  __builtin_wasm_memory_atomic_notify(reinterpret_cast<int*>(&word), UINT32_MAX);
#elif defined(__wasm__)
  (void)word;
#else
  word.notify_all();
#endif
}

// A hint inside a spin loop; natively also lets a starved thread run.
inline void SpinPause() {
#if !defined(__wasm__)
  std::this_thread::yield();
#endif
}

}  // namespace nonstop
