// The vector vocabulary (see scalar.h) in WebAssembly with relaxed SIMD: byte dots and fused
// multiply-add. Engines may read the dot's second operand as signed or saturate 16-bit pair sums,
// so kernels keep it in 0..127, where every engine is exact.
#pragma once

#include "cpu/vec/wasm_simd.h"

#if defined(__wasm_relaxed_simd__)

namespace nonstop::cpu::vec {

struct WasmRelaxed : WasmSimd {
  static constexpr bool kByteDot = true;
  static constexpr bool kFuses = true;  // on every engine tested
  static constexpr const char* kName = "wasm-relaxed";

  static I DotBytes(I signed_bytes, I small_bytes, I acc) {
    return wasm_i32x4_relaxed_dot_i8x16_i7x16_add(signed_bytes, small_bytes, acc);
  }
  static F Fma(F a, F b, F c) { return wasm_f32x4_relaxed_madd(a, b, c); }
};

}  // namespace nonstop::cpu::vec

#endif  // __wasm_relaxed_simd__
