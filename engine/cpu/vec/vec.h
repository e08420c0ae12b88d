// The build's own vector target.
#pragma once

#include "cpu/vec/scalar.h"
#include "cpu/vec/wasm_relaxed.h"
#include "cpu/vec/wasm_simd.h"
#include "cpu/vec/x86.h"

namespace nonstop::cpu::vec {

#if defined(__wasm_relaxed_simd__)
using Native = WasmRelaxed;
#elif defined(__wasm_simd128__)
using Native = WasmSimd;
#elif defined(__SSSE3__)
using Native = X86<true>;
#elif defined(__SSE2__)
using Native = X86<false>;
#else
using Native = Scalar<false>;
#endif

}  // namespace nonstop::cpu::vec
