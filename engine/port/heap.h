// A small heap of memory that is given piece by piece: for a module whose size counts. First fit
// among free blocks of like sizes, neighbours joined at once.
// Goals: a kilobyte of code where a libc's takes ten. Non-goals: threads, giving memory back.
#pragma once

#include <array>
#include <cstddef>

namespace nonstop {

class Heap {
 public:
  struct Memory {
    std::byte* begin = nullptr;  // null: there is no more
    size_t size_bytes = 0;
  };
  // Memory of at least so many bytes, aligned to 16; best where the last piece has ended.
  using Grow = Memory (*)(size_t size_bytes);

  explicit constexpr Heap(Grow grow) : grow_(grow) {}

  // Aligned to 16 bytes, or to a larger power of two. Null: there is no more memory.
  void* Allocate(size_t size_bytes, size_t alignment = kUnit);
  void* Reallocate(void* memory, size_t size_bytes);
  void Free(void* memory);

 private:
  static constexpr size_t kUnit = 16;

  // Before each piece of memory. Sizes are with it, and multiples of 16.
  struct alignas(16) Block {
    size_t size_and_free;  // bit 0: free
    Block* previous;       // in memory; null: the first of a piece

    size_t size() const { return size_and_free & ~size_t{1}; }
    bool is_free() const { return (size_and_free & 1) != 0; }
    std::byte* memory() { return reinterpret_cast<std::byte*>(this + 1); }
    Block* next() { return reinterpret_cast<Block*>(reinterpret_cast<std::byte*>(this) + size()); }
  };
  struct Links {  // in the memory of a free block
    Block* next;
    Block* previous;
  };
  static Links& LinksOf(Block* block) { return *reinterpret_cast<Links*>(block->memory()); }
  static Block* BlockOf(void* memory) { return static_cast<Block*>(memory) - 1; }

  Block* Find(size_t size);
  Block* Extend(size_t size);
  void Insert(Block* block);
  void Remove(Block* block);
  void Join(Block* block);
  void Split(Block* block, size_t size);

  Grow grow_;
  Block* end_ = nullptr;                              // of the last piece: a block without memory
  std::array<Block*, 8 * sizeof(size_t)> free_ = {};  // by the width of their size
};

}  // namespace nonstop
