// The build's own vector target, and its variant for processors where pair dots are faster.
#pragma once

#include "cpu/vec/scalar.h"
#include "cpu/vec/wasm_relaxed.h"
#include "cpu/vec/wasm_simd.h"
#include "cpu/vec/x86.h"

namespace nonstop::cpu::vec {

#if defined(__wasm_relaxed_simd__)
using Native = WasmRelaxed;
using NativePairs = WasmRelaxedPairs;
#elif defined(__wasm_simd128__)
using Native = WasmSimd;
using NativePairs = WasmSimd;
#elif defined(__SSSE3__)
using Native = X86<true>;
using NativePairs = X86Pairs;
#elif defined(__SSE2__)
using Native = X86<false>;
using NativePairs = X86<false>;
#else
using Native = Scalar<false>;
using NativePairs = Scalar<false>;
#endif

}  // namespace nonstop::cpu::vec
