// For tests only: the numbers and the hash that the Python references use too, so that results can
// be compared bit by bit.
#pragma once

#include <cstdint>

namespace nonstop {

// Knuth's MMIX generator.
struct Lcg {
  uint64_t state = 1;
  double Fraction() {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<double>(state >> 11) * 0x1p-53;
  }
};

// FNV-1a over the eight bytes of a word, least significant first.
inline uint64_t Fnv(uint64_t hash, uint64_t word) {
  for (int shift = 0; shift < 64; shift += 8) {
    hash = (hash ^ ((word >> shift) & 255)) * 0x100000001B3;
  }
  return hash;
}

}  // namespace nonstop
