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
  static I DotPairs(I signed_bytes, I small_bytes) {
    return wasm_i16x8_relaxed_dot_i8x16_i7x16(signed_bytes, small_bytes);
  }
  static F Fma(F a, F b, F c) { return wasm_f32x4_relaxed_madd(a, b, c); }
};

// On x86 processors without AVX-VNNI, engines make three instructions of the dot into 32 bits, and
// one of the dot into 16.
struct WasmRelaxedPairs : WasmRelaxed {
  static constexpr bool kPairDot = true;
  static constexpr const char* kName = "wasm-relaxed-pairs";
};

}  // namespace nonstop::cpu::vec

#endif  // __wasm_relaxed_simd__
