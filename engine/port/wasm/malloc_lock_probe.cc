// A module that allocates from several threads at once: what tools/test/malloc_lock.mjs runs.
//
// Each thread fills strings with its own letter and later checks them. Without the lock around
// malloc two threads get overlapping blocks (or the allocator loops for ever); thread-local
// storage that is not set up per worker shows as a wrong result too.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

constexpr int kRoundCount = 300'000;
constexpr size_t kKeptCount = 500;
constexpr int64_t kStartLimitNs = 20'000'000'000;

thread_local int thread_salt = 41;
std::atomic<int> started_count{0};

// Holds every thread back until all have come, so that they do overlap. False after the limit.
bool WaitForAll(int thread_count) {
  int* const address = reinterpret_cast<int*>(&started_count);
  int count = ++started_count;
  __builtin_wasm_memory_atomic_notify(address, static_cast<unsigned>(thread_count));
  for (; count < thread_count; count = started_count.load()) {
    if (__builtin_wasm_memory_atomic_wait32(address, count, kStartLimitNs) == 2) return false;
  }
  return true;
}

}  // namespace

extern "C" {

__attribute__((export_name("allocate"))) void* Allocate(size_t size_bytes) {
  return std::malloc(size_bytes);
}

// Returns the number of bytes that were not what this thread wrote, -1 if its thread-local
// variable is not its own, -2 if the other threads did not come.
__attribute__((export_name("work"))) int Work(int thread, int thread_count) {
  if (!WaitForAll(thread_count)) return -2;
  thread_salt += thread;
  const char letter = static_cast<char>('a' + thread);
  int wrong_count = 0;
  std::vector<std::string> kept;
  for (int round = 0; round < kRoundCount; ++round) {
    kept.emplace_back(20 + static_cast<size_t>(round % 100), letter);
    if (kept.size() < kKeptCount) continue;
    for (const std::string& text : kept) {
      for (char byte : text) wrong_count += byte != letter;
    }
    kept.clear();
  }
  return thread_salt == 41 + thread ? wrong_count : -1;
}

}  // extern "C"
