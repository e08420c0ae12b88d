// Philox4x32-10: a counter-based random number generator. Its output is a function of (counter,
// key) alone, so the n-th number needs no state and no order.
// Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
#pragma once

#include <array>
#include <cstdint>

namespace nonstop {

using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

PhiloxCounter Philox4x32(PhiloxCounter counter, PhiloxKey key);

// A uniform number in [0, 1), a multiple of 2^-24: the upper 24 bits of the first word for the
// counter (token_index low, high, 0, 0) and the key (seed low, high).
float PhiloxUniform(uint64_t seed, uint64_t token_index);

}  // namespace nonstop
