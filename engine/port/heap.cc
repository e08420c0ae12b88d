#include "port/heap.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

namespace nonstop {

void Heap::Insert(Block* block) {
  block->size_and_free |= 1;
  Block*& first = free_[std::bit_width(block->size()) - 1];
  LinksOf(block) = {first, nullptr};
  if (first != nullptr) LinksOf(first).previous = block;
  first = block;
}

void Heap::Remove(Block* block) {
  const Links links = LinksOf(block);
  if (links.next != nullptr) LinksOf(links.next).previous = links.previous;
  if (links.previous != nullptr) {
    LinksOf(links.previous).next = links.next;
  } else {
    free_[std::bit_width(block->size()) - 1] = links.next;
  }
  block->size_and_free &= ~size_t{1};
}

// Of two neighbours one, where both are free; none of them in a list.
void Heap::Join(Block* block) {
  Block* next = block->next();
  if (next->is_free()) {
    Remove(next);
    block->size_and_free += next->size();
    block->next()->previous = block;
  }
  Block* previous = block->previous;
  if (previous != nullptr && previous->is_free()) {
    Remove(previous);
    previous->size_and_free += block->size();
    previous->next()->previous = previous;
    block = previous;
  }
  Insert(block);
}

// Leaves `size` bytes of a block that is in use, if the rest is worth a block.
void Heap::Split(Block* block, size_t size) {
  if (block->size() - size < 2 * sizeof(Block)) return;
  auto* rest = reinterpret_cast<Block*>(reinterpret_cast<std::byte*>(block) + size);
  *rest = {block->size() - size, block};
  block->size_and_free = size;
  rest->next()->previous = rest;
  Join(rest);
}

Heap::Block* Heap::Find(size_t size) {
  for (size_t width = std::bit_width(size) - 1; width < free_.size(); ++width) {
    for (Block* block = free_[width]; block != nullptr; block = LinksOf(block).next) {
      if (block->size() >= size) {
        Remove(block);
        return block;
      }
    }
  }
  return Extend(size);
}

Heap::Block* Heap::Extend(size_t size) {
  const Memory memory = grow_(size + 2 * sizeof(Block));
  if (memory.begin == nullptr) return nullptr;
  auto* block = reinterpret_cast<Block*>(memory.begin);
  size_t size_bytes = memory.size_bytes & ~(kUnit - 1);
  if (end_ != nullptr && memory.begin == end_->memory()) {  // goes on where the last one ended
    block = end_;
    size_bytes += sizeof(Block);
  } else {
    block->previous = nullptr;
  }
  block->size_and_free = size_bytes - sizeof(Block);
  end_ = block->next();
  *end_ = {sizeof(Block), block};
  Join(block);
  return Find(size);
}

void* Heap::Allocate(size_t size_bytes, size_t alignment) {
  const size_t extra = alignment > kUnit ? alignment + 2 * sizeof(Block) : 0;
  if (size_bytes > SIZE_MAX / 2 - extra) return nullptr;
  const size_t size = sizeof(Block) + std::max(kUnit, (size_bytes + kUnit - 1) & ~(kUnit - 1));
  Block* block = Find(size + extra);
  if (block == nullptr) return nullptr;
  const size_t misfit = reinterpret_cast<uintptr_t>(block->memory()) & (alignment - 1);
  if (misfit != 0) {
    // What is left before the aligned memory must hold a block.
    size_t skipped = alignment - misfit;
    while (skipped < 2 * sizeof(Block)) skipped += alignment;
    auto* aligned = reinterpret_cast<Block*>(reinterpret_cast<std::byte*>(block) + skipped);
    *aligned = {block->size() - skipped, block};
    aligned->next()->previous = aligned;
    block->size_and_free = skipped;
    Join(block);
    block = aligned;
  }
  Split(block, size);
  return block->memory();
}

void* Heap::Reallocate(void* memory, size_t size_bytes) {
  if (memory == nullptr) return Allocate(size_bytes);
  const size_t kept = BlockOf(memory)->size() - sizeof(Block);
  if (size_bytes <= kept) return memory;
  void* larger = Allocate(size_bytes);
  if (larger == nullptr) return nullptr;
  std::memcpy(larger, memory, kept);
  Free(memory);
  return larger;
}

void Heap::Free(void* memory) {
  if (memory != nullptr) Join(BlockOf(memory));
}

}  // namespace nonstop
