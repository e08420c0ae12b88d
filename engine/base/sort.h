// A heap sort of a few dozen instructions, for lists that are sorted once per model: every
// std::sort adds 6 to 15 KB to the module. Not stable: order ties in `is_less`.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

namespace nonstop {

template <class T, class Less>
void HeapSort(std::span<T> items, Less is_less) {
  size_t heap_size = items.size();
  size_t next_root = heap_size / 2;
  while (heap_size > 1) {
    if (next_root > 0) {
      --next_root;  // still building the heap
    } else {
      std::swap(items[0], items[--heap_size]);
    }
    size_t root = next_root;
    for (size_t child = 2 * root + 1; child < heap_size; child = 2 * root + 1) {
      if (child + 1 < heap_size && is_less(items[child], items[child + 1])) ++child;
      if (!is_less(items[root], items[child])) break;
      std::swap(items[root], items[child]);
      root = child;
    }
  }
}

}  // namespace nonstop
