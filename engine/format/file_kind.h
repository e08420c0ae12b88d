// Says what a file that is no GGUF is instead, from its first bytes: the usual accidents are an
// error page, a Git LFS pointer and a model in another format.
#pragma once

#include <cstddef>
#include <span>

#include "base/result.h"

namespace nonstop {

// With this many bytes at hand more would not change the answer.
inline constexpr size_t kFileKindPrefixBytes = 512;

// True while the bytes may still become a GGUF file.
bool MayBeGguf(std::span<const std::byte> prefix);

// The error (kNotGguf) for a file that starts with `prefix`, where MayBeGguf is false or the file
// is empty.
Error DescribeNotGguf(std::span<const std::byte> prefix);

}  // namespace nonstop
