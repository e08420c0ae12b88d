// The vector vocabulary (see scalar.h) on x86-64 in 128 bits, from SSE2 (every processor) up to FMA
// and VNNI where the compiler may use them. Both inner products exist, so that native tests cover
// the packings of both WebAssembly builds.
#pragma once

#if defined(__SSE2__)

#include <immintrin.h>

#include <cstdint>
#include <cstring>

namespace nonstop::cpu::vec {

template <bool kBytes>
struct X86 {
  static constexpr bool kByteDot = kBytes;
  static constexpr bool kPairDot = false;
#if defined(__FMA__)
  static constexpr bool kFuses = true;
#else
  static constexpr bool kFuses = false;
#endif
  static constexpr const char* kName = kBytes ? "x86-bytes" : "x86-halves";
  using I = __m128i;
  using F = __m128;

  static void Touch(const void* from) { _mm_prefetch(from, _MM_HINT_T0); }
  static I LoadI(const void* from) { return _mm_loadu_si128(static_cast<const __m128i*>(from)); }
  static void StoreI(void* to, I a) { _mm_storeu_si128(static_cast<__m128i*>(to), a); }
  static I LoadSplat32(const void* from) {
    int32_t value;
    std::memcpy(&value, from, sizeof(value));
    return _mm_set1_epi32(value);
  }
  static F LoadF(const void* from) { return _mm_loadu_ps(static_cast<const float*>(from)); }
  static void StoreF(void* to, F a) { _mm_storeu_ps(static_cast<float*>(to), a); }
  static F LoadSplatF(const void* from) { return FloatOf(LoadSplat32(from)); }

  static I Splat32(int32_t value) { return _mm_set1_epi32(value); }
  static I Splat16(uint16_t value) { return _mm_set1_epi16(static_cast<int16_t>(value)); }
  static F SplatF(float value) { return _mm_set1_ps(value); }
  static I BitsOf(F a) { return _mm_castps_si128(a); }
  static F FloatOf(I bits) { return _mm_castsi128_ps(bits); }

  static I And(I a, I b) { return _mm_and_si128(a, b); }
  static I Or(I a, I b) { return _mm_or_si128(a, b); }
  static I Xor(I a, I b) { return _mm_xor_si128(a, b); }
  static I Add32(I a, I b) { return _mm_add_epi32(a, b); }
  static I Sub32(I a, I b) { return _mm_sub_epi32(a, b); }
  static I Add16(I a, I b) { return _mm_add_epi16(a, b); }
  static I ShiftLeft32(I a, int count) { return _mm_slli_epi32(a, count); }
  static I ShiftLeft16(I a, int count) { return _mm_slli_epi16(a, count); }
  static I ShiftRight16(I a, int count) { return _mm_srli_epi16(a, count); }
  static I WidenLow8(I a) { return _mm_srai_epi16(_mm_unpacklo_epi8(a, a), 8); }
  static I WidenHigh8(I a) { return _mm_srai_epi16(_mm_unpackhi_epi8(a, a), 8); }
  static I WidenLow16(I a) { return _mm_srai_epi32(_mm_unpacklo_epi16(a, a), 16); }
  static I WidenHigh16(I a) { return _mm_srai_epi32(_mm_unpackhi_epi16(a, a), 16); }
  static I Narrow32(I a, I b) { return _mm_packs_epi32(a, b); }
  static I Narrow16(I a, I b) { return _mm_packs_epi16(a, b); }
  static I SignMask32(I a) { return _mm_srai_epi32(a, 31); }
  static I LookUp(I table, I index) {
#if defined(__SSSE3__)
    return _mm_shuffle_epi8(table, index);
#else
    uint8_t entries[16], bytes[16];
    StoreI(entries, table);
    StoreI(bytes, index);
    for (uint8_t& byte : bytes) byte = entries[byte & 15];
    return LoadI(bytes);
#endif
  }
  static I DotBytes(I signed_bytes, I small_bytes, I acc) {
#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
    return _mm_dpbusd_epi32(acc, small_bytes, signed_bytes);
#elif defined(__AVXVNNI__)
    return _mm_dpbusd_avx_epi32(acc, small_bytes, signed_bytes);
#elif defined(__SSSE3__)  // 2 * 127 * 128 fits in 16 bits
    const I pairs = _mm_maddubs_epi16(small_bytes, signed_bytes);
    return _mm_add_epi32(acc, _mm_madd_epi16(pairs, _mm_set1_epi16(1)));
#else
    const I zero = _mm_setzero_si128();
    const I low = _mm_madd_epi16(WidenLow8(signed_bytes), _mm_unpacklo_epi8(small_bytes, zero));
    const I high = _mm_madd_epi16(WidenHigh8(signed_bytes), _mm_unpackhi_epi8(small_bytes, zero));
    const I even = BitsOf(_mm_shuffle_ps(FloatOf(low), FloatOf(high), _MM_SHUFFLE(2, 0, 2, 0)));
    const I odd = BitsOf(_mm_shuffle_ps(FloatOf(low), FloatOf(high), _MM_SHUFFLE(3, 1, 3, 1)));
    return _mm_add_epi32(acc, _mm_add_epi32(even, odd));
#endif
  }
#if defined(__SSSE3__)
  static I DotPairs(I signed_bytes, I small_bytes) {
    return _mm_maddubs_epi16(small_bytes, signed_bytes);
  }
#endif
  static I DotHalves(I a, I b, I acc) { return _mm_add_epi32(acc, _mm_madd_epi16(a, b)); }

  static F FromInt(I a) { return _mm_cvtepi32_ps(a); }
  static I RoundToInt(F a) {
    const F shift = _mm_set1_ps(12582912.0f);
    return _mm_sub_epi32(BitsOf(_mm_add_ps(a, shift)), BitsOf(shift));
  }
  static F Add(F a, F b) { return _mm_add_ps(a, b); }
  static F Sub(F a, F b) { return _mm_sub_ps(a, b); }
  static F Mul(F a, F b) { return _mm_mul_ps(a, b); }
  static F Div(F a, F b) { return _mm_div_ps(a, b); }
  static F Fma(F a, F b, F c) {
#if defined(__FMA__)
    return _mm_fmadd_ps(a, b, c);
#else
    return _mm_add_ps(_mm_mul_ps(a, b), c);
#endif
  }
  static F Min(F a, F b) { return _mm_min_ps(a, b); }
  static F Max(F a, F b) { return _mm_max_ps(a, b); }
  static F SelectLess(F a, F b, F then, F otherwise) {
    const F mask = _mm_cmplt_ps(a, b);
    return _mm_or_ps(_mm_and_ps(mask, then), _mm_andnot_ps(mask, otherwise));
  }
  static F ZipLow(F a, F b) { return _mm_unpacklo_ps(a, b); }
  static F ZipHigh(F a, F b) { return _mm_unpackhi_ps(a, b); }
  static F SwapPairs(F a) { return _mm_shuffle_ps(a, a, _MM_SHUFFLE(2, 3, 0, 1)); }
  static void Transpose(F (&rows)[4]) { _MM_TRANSPOSE4_PS(rows[0], rows[1], rows[2], rows[3]); }
  static float Sum(F a) {
    const F pairs = _mm_add_ps(a, _mm_movehl_ps(a, a));
    return _mm_cvtss_f32(_mm_add_ss(pairs, _mm_shuffle_ps(pairs, pairs, 1)));
  }
};

#if defined(__SSSE3__)
struct X86Pairs : X86<true> {
  static constexpr bool kPairDot = true;
  static constexpr const char* kName = "x86-pairs";
};
#endif

}  // namespace nonstop::cpu::vec

#endif  // __SSE2__
