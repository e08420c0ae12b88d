// The text of the GPU kernels, kernels/*.wgsl, which a module carries packed
// (tools/kernels/pack.py).
#pragma once

#include <string_view>

namespace nonstop {

// Of a file by its name without ".wgsl": without comments, indentation and blank lines. There must
// be one.
std::string_view FindKernelFile(std::string_view name);

}  // namespace nonstop
