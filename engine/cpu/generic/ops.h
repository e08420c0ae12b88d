// Norms and element-wise operations of cpu/ops.h over a vector target S.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "cpu/generic/math.h"

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

  static void Scale(const float* x, float factor, uint32_t length, float* y) {
    const F splat = S::SplatF(factor);
    Map(length, y, [splat](F v) { return S::Mul(v, splat); }, x);
  }

  static void SoftCap(const float* x, float cap, uint32_t length, float* y) {
    const F splat = S::SplatF(cap);
    Map(length, y, [splat](F v) { return S::Mul(splat, Tanh<S>(S::Div(v, splat))); }, x);
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
