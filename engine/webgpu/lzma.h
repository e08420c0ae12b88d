// A reader of raw LZMA: for the text of the kernels, which is ours, so what is no such stream is
// not looked for. Format: the LZMA specification (Igor Pavlov, 2015).
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace nonstop {

// Of a stream with lc = 3, lp = 0, pb = 0.
std::string UnpackLzma(std::span<const uint8_t> packed, size_t size);

}  // namespace nonstop
