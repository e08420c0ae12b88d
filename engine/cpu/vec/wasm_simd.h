// The vector vocabulary (see scalar.h) in WebAssembly SIMD128, without relaxed operations: 16-bit
// dots, and a multiply and an add where others fuse.
#pragma once

#if defined(__wasm_simd128__)

#include <wasm_simd128.h>

#include <cstdint>

namespace nonstop::cpu::vec {

struct WasmSimd {
  static constexpr bool kByteDot = false;
  static constexpr bool kPairDot = false;
  static constexpr bool kFuses = false;
  static constexpr const char* kName = "wasm-simd";
  using I = v128_t;
  using F = v128_t;

  // Brings a cache line in; the address must be one that may be read.
  static void Touch(const void* from) { (void)*static_cast<const volatile uint32_t*>(from); }
  static I LoadI(const void* from) { return wasm_v128_load(from); }
  static void StoreI(void* to, I a) { wasm_v128_store(to, a); }
  static I LoadSplat32(const void* from) { return wasm_v128_load32_splat(from); }
  static F LoadF(const void* from) { return wasm_v128_load(from); }
  static void StoreF(void* to, F a) { wasm_v128_store(to, a); }
  static F LoadSplatF(const void* from) { return wasm_v128_load32_splat(from); }

  static I Splat32(int32_t value) { return wasm_i32x4_splat(value); }
  static I Splat16(uint16_t value) { return wasm_u16x8_splat(value); }
  static F SplatF(float value) { return wasm_f32x4_splat(value); }
  static I BitsOf(F a) { return a; }
  static F FloatOf(I bits) { return bits; }

  static I And(I a, I b) { return wasm_v128_and(a, b); }
  static I Or(I a, I b) { return wasm_v128_or(a, b); }
  static I Xor(I a, I b) { return wasm_v128_xor(a, b); }
  static I Add32(I a, I b) { return wasm_i32x4_add(a, b); }
  static I Sub32(I a, I b) { return wasm_i32x4_sub(a, b); }
  static I Add16(I a, I b) { return wasm_i16x8_add(a, b); }
  static I ShiftLeft32(I a, int count) { return wasm_i32x4_shl(a, static_cast<uint32_t>(count)); }
  static I ShiftLeft16(I a, int count) { return wasm_i16x8_shl(a, static_cast<uint32_t>(count)); }
  static I ShiftRight16(I a, int count) { return wasm_u16x8_shr(a, static_cast<uint32_t>(count)); }
  static I WidenLow8(I a) { return wasm_i16x8_extend_low_i8x16(a); }
  static I WidenHigh8(I a) { return wasm_i16x8_extend_high_i8x16(a); }
  static I WidenLow16(I a) { return wasm_i32x4_extend_low_i16x8(a); }
  static I WidenHigh16(I a) { return wasm_i32x4_extend_high_i16x8(a); }
  static I Narrow32(I a, I b) { return wasm_i16x8_narrow_i32x4(a, b); }
  static I Narrow16(I a, I b) { return wasm_i8x16_narrow_i16x8(a, b); }
  static I SignMask32(I a) { return wasm_i32x4_shr(a, 31); }
  static I LookUp(I table, I index) { return wasm_i8x16_swizzle(table, index); }
  static I DotHalves(I a, I b, I acc) { return wasm_i32x4_add(acc, wasm_i32x4_dot_i16x8(a, b)); }

  static F FromInt(I a) { return wasm_f32x4_convert_i32x4(a); }
  static I RoundToInt(F a) {
    const F shift = wasm_f32x4_const_splat(12582912.0f);
    return wasm_i32x4_sub(wasm_f32x4_add(a, shift), shift);
  }
  static F Add(F a, F b) { return wasm_f32x4_add(a, b); }
  static F Sub(F a, F b) { return wasm_f32x4_sub(a, b); }
  static F Mul(F a, F b) { return wasm_f32x4_mul(a, b); }
  static F Div(F a, F b) { return wasm_f32x4_div(a, b); }
  static F Fma(F a, F b, F c) { return wasm_f32x4_add(wasm_f32x4_mul(a, b), c); }
  // pmin(x, y) is y < x ? y : x, one instruction on x86; f32x4.min is several.
  static F Min(F a, F b) { return wasm_f32x4_pmin(b, a); }
  static F Max(F a, F b) { return wasm_f32x4_pmax(b, a); }
  static F SelectLess(F a, F b, F then, F otherwise) {
    return wasm_v128_bitselect(then, otherwise, wasm_f32x4_lt(a, b));
  }
  static F ZipLow(F a, F b) { return wasm_i32x4_shuffle(a, b, 0, 4, 1, 5); }
  static F ZipHigh(F a, F b) { return wasm_i32x4_shuffle(a, b, 2, 6, 3, 7); }
  static F SwapPairs(F a) { return wasm_i32x4_shuffle(a, a, 1, 0, 3, 2); }
  static void Transpose(F (&rows)[4]) {
    const F low01 = ZipLow(rows[0], rows[1]), high01 = ZipHigh(rows[0], rows[1]);
    const F low23 = ZipLow(rows[2], rows[3]), high23 = ZipHigh(rows[2], rows[3]);
    rows[0] = wasm_i64x2_shuffle(low01, low23, 0, 2);
    rows[1] = wasm_i64x2_shuffle(low01, low23, 1, 3);
    rows[2] = wasm_i64x2_shuffle(high01, high23, 0, 2);
    rows[3] = wasm_i64x2_shuffle(high01, high23, 1, 3);
  }
  static float Sum(F a) {
    const F pairs = wasm_f32x4_add(a, wasm_i32x4_shuffle(a, a, 2, 3, 0, 1));
    return wasm_f32x4_extract_lane(pairs, 0) + wasm_f32x4_extract_lane(pairs, 1);
  }
};

}  // namespace nonstop::cpu::vec

#endif  // __wasm_simd128__
