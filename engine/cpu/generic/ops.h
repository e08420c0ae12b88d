// Norms and element-wise operations of cpu/ops.h over a vector target S.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "cpu/generic/math.h"
#include "cpu/ops.h"

namespace nonstop::cpu {

template <class S>
struct OpsOn {
  using F = typename S::F;

  static void RmsNorm(const float* x, const float* w, uint32_t length, float eps, float* y) {
    const float factor =
        1.0f / std::sqrt(SumOfSquares(x, length) / static_cast<float>(length) + eps);
    const F splat = S::SplatF(factor);
    Map(
        length, y, [splat](F value, F weight) { return S::Mul(S::Mul(value, splat), weight); }, x,
        w);
  }

  static void SiluMul(const float* gate, const float* up, uint32_t length, float* y) {
    Map(length, y, [](F g, F u) { return S::Mul(S::Mul(g, Sigmoid<S>(g)), u); }, gate, up);
  }

  // 0.5 g (1 + tanh(a)) = g sigmoid(2 a), a = sqrt(2 / pi) (g + 0.044715 g^3).
  static void GeluMul(const float* gate, const float* up, uint32_t length, float* y) {
    Map(
        length, y,
        [](F g, F u) {
          const F one = S::SplatF(1.0f);
          const F inner = S::Mul(g, S::Fma(S::Mul(g, g), S::SplatF(0.044715f), one));
          const F sigmoid = Sigmoid<S>(S::Mul(inner, S::SplatF(1.5957691216057308f)));
          return S::Mul(S::Mul(g, sigmoid), u);
        },
        gate, up);
  }

  static void Add(const float* a, const float* b, uint32_t length, float* y) {
    Map(length, y, [](F u, F v) { return S::Add(u, v); }, a, b);
  }

  [[gnu::noinline]] static void Scale(const float* x, float factor, uint32_t length, float* y) {
    const F splat = S::SplatF(factor);
    Map(length, y, [splat](F v) { return S::Mul(v, splat); }, x);
  }

  [[gnu::noinline]] static void SoftCap(const float* x, float cap, uint32_t length, float* y) {
    const F splat = S::SplatF(cap);
    Map(length, y, [splat](F v) { return S::Mul(splat, Tanh<S>(S::Div(v, splat))); }, x);
  }

  // One head. x[a] cos - x[b] sin, x[a] sin + x[b] cos for pairs (a, b); multiply and add round
  // each, as in the reference.
  static void Rope(float* x, const float* cosines, const float* sines, uint32_t pair_count,
                   RopeStyle style) {
    uint32_t i = 0;
    if (style == RopeStyle::kHalves) {
      float* second = x + pair_count;
      for (; i + 4 <= pair_count; i += 4) {
        const F c = S::LoadF(cosines + i), s = S::LoadF(sines + i);
        const F a = S::LoadF(x + i), b = S::LoadF(second + i);
        S::StoreF(x + i, S::Sub(S::Mul(a, c), S::Mul(b, s)));
        S::StoreF(second + i, S::Add(S::Mul(a, s), S::Mul(b, c)));
      }
      for (; i < pair_count; ++i) RotatePair(x + i, second + i, cosines[i], sines[i]);
      return;
    }
    for (; i + 4 <= pair_count; i += 4) {
      const F c = S::LoadF(cosines + i), s = S::LoadF(sines + i);
      const F minus_s = S::Sub(S::SplatF(0), s);
      for (uint32_t half = 0; half < 2; ++half) {
        float* at = x + 2 * i + 4 * half;
        const F v = S::LoadF(at);
        const F cc = half == 0 ? S::ZipLow(c, c) : S::ZipHigh(c, c);
        const F ss = half == 0 ? S::ZipLow(minus_s, s) : S::ZipHigh(minus_s, s);
        S::StoreF(at, S::Add(S::Mul(v, cc), S::Mul(S::SwapPairs(v), ss)));
      }
    }
    for (; i < pair_count; ++i) RotatePair(x + 2 * i, x + 2 * i + 1, cosines[i], sines[i]);
  }

  [[gnu::noinline]] static float ExpOf(float x) {
    float lanes[4];
    S::StoreF(lanes, Exp<S>(S::SplatF(x)));
    return lanes[0];
  }

  // y += factor * x.
  [[gnu::noinline]] static void AddScaled(const float* x, float factor, uint32_t length, float* y) {
    const F splat = S::SplatF(factor);
    Map(length, y, [splat](F v, F sum) { return S::Fma(v, splat, sum); }, x, y);
  }

  // NaN may be passed over.
  [[gnu::noinline]] static float Largest(const float* x, uint32_t length) {
    float largest = -INFINITY;
    uint32_t i = 0;
    if (length >= 4) {
      F lanes = S::LoadF(x);
      for (i = 4; i + 4 <= length; i += 4) lanes = S::Max(lanes, S::LoadF(x + i));
      float four[4];
      S::StoreF(four, lanes);
      largest = std::max(std::max(four[0], four[1]), std::max(four[2], four[3]));
    }
    for (; i < length; ++i) largest = std::max(largest, x[i]);
    return largest;
  }

  // x[i] = exp(x[i] - shift); returns their sum.
  [[gnu::noinline]] static float ExpAndSum(float* x, float shift, uint32_t length) {
    const F splat = S::SplatF(shift);
    F total = S::SplatF(0);
    uint32_t i = 0;
    for (; i + 4 <= length; i += 4) {
      const F value = Exp<S>(S::Sub(S::LoadF(x + i), splat));
      S::StoreF(x + i, value);
      total = S::Add(total, value);
    }
    float sum = S::Sum(total);
    for (; i < length; ++i) sum += x[i] = ExpOf(x[i] - shift);
    return sum;
  }

  // y[i] = function(inputs[i]...); y may be an input.
  template <class Function, class... Inputs>
  static void Map(uint32_t length, float* y, Function function, const Inputs*... inputs) {
    uint32_t i = 0;
    for (; i + 4 <= length; i += 4) S::StoreF(y + i, function(S::LoadF(inputs + i)...));
    if (i == length) return;
    float last[4];
    S::StoreF(last, function(LoadFirst(inputs + i, length - i)...));
    std::memcpy(y + i, last, (length - i) * sizeof(float));
  }

 private:
  static void RotatePair(float* a, float* b, float cosine, float sine) {
    const float rotated = *a * cosine - *b * sine;
    *b = *a * sine + *b * cosine;
    *a = rotated;
  }

  // The first `count` (1..3) lanes from memory, the others zero.
  static F LoadFirst(const float* from, uint32_t count) {
    float lanes[4] = {};
    std::memcpy(lanes, from, count * sizeof(float));
    return S::LoadF(lanes);
  }

  static float SumOfSquares(const float* x, uint32_t length) {
    F sums[4] = {S::SplatF(0), S::SplatF(0), S::SplatF(0), S::SplatF(0)};
    uint32_t i = 0;
    for (; i + 16 <= length; i += 16) {
      for (uint32_t j = 0; j < 4; ++j) {
        const F v = S::LoadF(x + i + 4 * j);
        sums[j] = S::Fma(v, v, sums[j]);
      }
    }
    for (; i < length; i += 4) {
      const F v = length - i >= 4 ? S::LoadF(x + i) : LoadFirst(x + i, length - i);
      sums[0] = S::Fma(v, v, sums[0]);
    }
    return S::Sum(S::Add(S::Add(sums[0], sums[1]), S::Add(sums[2], sums[3])));
  }
};

}  // namespace nonstop::cpu
