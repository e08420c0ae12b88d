// The vector vocabulary of the kernels in plain loops: 128 bits, as integers (I) or four floats
// (F). Every build has it: it is the fall-back on unknown processors and what the others are tested
// against. All targets have the same static functions; kByteDot says which inner product, and so
// which packing, a build wants.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>

namespace nonstop::cpu::vec {

template <bool kBytes>
struct Scalar {
  static constexpr bool kByteDot = kBytes;
  static constexpr bool kPairDot = false;
  static constexpr bool kFuses = false;  // Fma rounds once
  static constexpr const char* kName = kBytes ? "scalar-bytes" : "scalar-halves";

  struct I {
    uint32_t lane[4];
  };
  struct F {
    float lane[4];
  };

  // Memory; no alignment is needed.
  static void Touch(const void*) {}  // a hint
  static I LoadI(const void* from) { return Copy<I>(from); }
  static void StoreI(void* to, I a) { std::memcpy(to, &a, sizeof(a)); }
  static I LoadSplat32(const void* from) { return Splat32(Copy<int32_t>(from)); }
  static F LoadF(const void* from) { return Copy<F>(from); }
  static void StoreF(void* to, F a) { std::memcpy(to, &a, sizeof(a)); }
  static F LoadSplatF(const void* from) { return SplatF(Copy<float>(from)); }

  static I Splat32(int32_t value) {
    const auto bits = static_cast<uint32_t>(value);
    return {{bits, bits, bits, bits}};
  }
  static I Splat16(uint16_t value) { return Splat32(static_cast<int32_t>(value * 0x10001u)); }
  static F SplatF(float value) { return {{value, value, value, value}}; }
  static I BitsOf(F a) { return std::bit_cast<I>(a); }
  static F FloatOf(I bits) { return std::bit_cast<F>(bits); }

  // Integers.
  static I And(I a, I b) {
    return Map(a, b, [](uint32_t x, uint32_t y) { return x & y; });
  }
  static I Or(I a, I b) {
    return Map(a, b, [](uint32_t x, uint32_t y) { return x | y; });
  }
  static I Xor(I a, I b) {
    return Map(a, b, [](uint32_t x, uint32_t y) { return x ^ y; });
  }
  static I Add32(I a, I b) {
    return Map(a, b, [](uint32_t x, uint32_t y) { return x + y; });
  }
  static I Sub32(I a, I b) {
    return Map(a, b, [](uint32_t x, uint32_t y) { return x - y; });
  }
  static I Add16(I a, I b) {
    auto x = std::bit_cast<Lanes<uint16_t>>(a);
    const auto y = std::bit_cast<Lanes<uint16_t>>(b);
    for (int i = 0; i < 8; ++i) x.lane[i] = static_cast<uint16_t>(x.lane[i] + y.lane[i]);
    return std::bit_cast<I>(x);
  }
  static I ShiftLeft32(I a, int count) {
    for (uint32_t& lane : a.lane) lane <<= count;
    return a;
  }
  static I ShiftLeft16(I a, int count) {
    auto halves = std::bit_cast<Lanes<uint16_t>>(a);
    for (uint16_t& lane : halves.lane) lane = static_cast<uint16_t>(lane << count);
    return std::bit_cast<I>(halves);
  }
  static I ShiftRight16(I a, int count) {  // zeros come in
    auto halves = std::bit_cast<Lanes<uint16_t>>(a);
    for (uint16_t& lane : halves.lane) lane = static_cast<uint16_t>(lane >> count);
    return std::bit_cast<I>(halves);
  }
  static I WidenLow8(I a) { return Widen<int8_t, int16_t>(a, 0); }  // sign-extended
  static I WidenHigh8(I a) { return Widen<int8_t, int16_t>(a, 8); }
  static I WidenLow16(I a) { return Widen<int16_t, int32_t>(a, 0); }
  static I WidenHigh16(I a) { return Widen<int16_t, int32_t>(a, 4); }
  // Two vectors in one, the lanes half as wide; values must fit.
  static I Narrow32(I a, I b) { return Narrow<int32_t, int16_t>(a, b); }
  static I Narrow16(I a, I b) { return Narrow<int16_t, int8_t>(a, b); }
  static I SignMask32(I a) {  // all ones where negative
    for (uint32_t& lane : a.lane) lane = static_cast<uint32_t>(static_cast<int32_t>(lane) >> 31);
    return a;
  }
  // table[index[i]] for byte indices 0..15.
  static I LookUp(I table, I index) {
    const auto entries = std::bit_cast<Lanes<uint8_t>>(table);
    auto bytes = std::bit_cast<Lanes<uint8_t>>(index);
    for (uint8_t& byte : bytes.lane) byte = entries.lane[byte & 15];
    return std::bit_cast<I>(bytes);
  }
  // acc[i] + sum of the four products in lane i. The second operand must be in 0..127.
  static I DotBytes(I signed_bytes, I small_bytes, I acc) {
    const auto a = std::bit_cast<Lanes<int8_t>>(signed_bytes);
    const auto b = std::bit_cast<Lanes<uint8_t>>(small_bytes);
    for (int i = 0; i < 16; ++i) acc.lane[i / 4] += static_cast<uint32_t>(a.lane[i] * b.lane[i]);
    return acc;
  }
  // Sums of two products, as signed 16-bit lanes; the second operand as in DotBytes.
  static I DotPairs(I signed_bytes, I small_bytes) {
    const auto a = std::bit_cast<Lanes<int8_t>>(signed_bytes);
    const auto b = std::bit_cast<Lanes<uint8_t>>(small_bytes);
    Lanes<int16_t> sums = {};
    for (int i = 0; i < 16; ++i) {
      sums.lane[i / 2] = static_cast<int16_t>(sums.lane[i / 2] + a.lane[i] * b.lane[i]);
    }
    return std::bit_cast<I>(sums);
  }
  // acc[i] + sum of the two products of signed 16-bit values in lane i.
  static I DotHalves(I a, I b, I acc) {
    const auto x = std::bit_cast<Lanes<int16_t>>(a), y = std::bit_cast<Lanes<int16_t>>(b);
    for (int i = 0; i < 8; ++i) acc.lane[i / 2] += static_cast<uint32_t>(x.lane[i] * y.lane[i]);
    return acc;
  }

  // Floats.
  static F FromInt(I a) {
    F result;
    for (int i = 0; i < 4; ++i) {
      result.lane[i] = static_cast<float>(static_cast<int32_t>(a.lane[i]));
    }
    return result;
  }
  // Nearest integer, ties to even; |a| below 2^22 (NaN gives any integer).
  static I RoundToInt(F a) {
    const F shifted = Add(a, SplatF(12582912.0f));
    return Sub32(BitsOf(shifted), BitsOf(SplatF(12582912.0f)));
  }
  static F Add(F a, F b) {
    return Map(a, b, [](float x, float y) { return x + y; });
  }
  static F Sub(F a, F b) {
    return Map(a, b, [](float x, float y) { return x - y; });
  }
  static F Mul(F a, F b) {
    return Map(a, b, [](float x, float y) { return x * y; });
  }
  static F Div(F a, F b) {
    return Map(a, b, [](float x, float y) { return x / y; });
  }
  static F Fma(F a, F b, F c) { return Add(Mul(a, b), c); }  // fused where that is fast
  // b when either is NaN.
  static F Min(F a, F b) {
    return Map(a, b, [](float x, float y) { return x < y ? x : y; });
  }
  static F Max(F a, F b) {
    return Map(a, b, [](float x, float y) { return x > y ? x : y; });
  }
  static F SelectLess(F a, F b, F then, F otherwise) {  // a < b ? then : otherwise
    for (int i = 0; i < 4; ++i) {
      if (a.lane[i] < b.lane[i]) otherwise.lane[i] = then.lane[i];
    }
    return otherwise;
  }
  static F ZipLow(F a, F b) { return {{a.lane[0], b.lane[0], a.lane[1], b.lane[1]}}; }
  static F ZipHigh(F a, F b) { return {{a.lane[2], b.lane[2], a.lane[3], b.lane[3]}}; }
  static F SwapPairs(F a) { return {{a.lane[1], a.lane[0], a.lane[3], a.lane[2]}}; }
  static void Transpose(F (&rows)[4]) {
    for (int i = 0; i < 4; ++i) {
      for (int j = 0; j < i; ++j) std::swap(rows[i].lane[j], rows[j].lane[i]);
    }
  }
  static float Sum(F a) { return (a.lane[0] + a.lane[2]) + (a.lane[1] + a.lane[3]); }

 private:
  template <class T>
  struct Lanes {
    T lane[16 / sizeof(T)];
  };

  template <class T>
  static T Copy(const void* from) {
    T value;
    std::memcpy(&value, from, sizeof(T));
    return value;
  }
  template <class V, class Function>
  static V Map(V a, V b, Function function) {
    for (int i = 0; i < 4; ++i) a.lane[i] = function(a.lane[i], b.lane[i]);
    return a;
  }
  template <class From, class To>
  static I Narrow(I a, I b) {
    const auto low = std::bit_cast<Lanes<From>>(a), high = std::bit_cast<Lanes<From>>(b);
    constexpr size_t kCount = 16 / sizeof(From);
    Lanes<To> narrow;
    for (size_t i = 0; i < kCount; ++i) {
      narrow.lane[i] = static_cast<To>(low.lane[i]);
      narrow.lane[kCount + i] = static_cast<To>(high.lane[i]);
    }
    return std::bit_cast<I>(narrow);
  }
  template <class From, class To>
  static I Widen(I a, int first) {
    const auto narrow = std::bit_cast<Lanes<From>>(a);
    Lanes<To> wide;
    for (size_t i = 0; i < 16 / sizeof(To); ++i) {
      wide.lane[i] = narrow.lane[static_cast<size_t>(first) + i];
    }
    return std::bit_cast<I>(wide);
  }
};

struct ScalarPairs : Scalar<true> {
  static constexpr bool kPairDot = true;
  static constexpr const char* kName = "scalar-pairs";
};

}  // namespace nonstop::cpu::vec
