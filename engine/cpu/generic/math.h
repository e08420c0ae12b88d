// Elementary functions over a vector target, to about 1 ulp (tanh near 2). NaN stays NaN.
// Polynomials: Cephes expf and tanhf (Moshier 1992).
#pragma once

namespace nonstop::cpu {

// e^x, with x brought into [-87, 88] first: what is beyond is 1.6e-38 or 1.6e38.
template <class S>
inline typename S::F Exp(typename S::F x) {
  using F = typename S::F;
  x = S::Max(S::SplatF(-87.0f), S::Min(S::SplatF(88.0f), x));
  const auto n = S::RoundToInt(S::Mul(x, S::SplatF(1.44269504088896341f)));
  const F n_float = S::FromInt(n);
  // x - n ln 2, with ln 2 in two parts of which the first is short, so that n times it is exact.
  F r = S::Sub(x, S::Mul(n_float, S::SplatF(0.693359375f)));
  r = S::Sub(r, S::Mul(n_float, S::SplatF(-2.12194440e-4f)));
  F y = S::SplatF(1.9875691500e-4f);
  y = S::Fma(y, r, S::SplatF(1.3981999507e-3f));
  y = S::Fma(y, r, S::SplatF(8.3334519073e-3f));
  y = S::Fma(y, r, S::SplatF(4.1665795894e-2f));
  y = S::Fma(y, r, S::SplatF(1.6666665459e-1f));
  y = S::Fma(y, r, S::SplatF(5.0000001201e-1f));
  y = S::Add(S::Fma(S::Mul(y, r), r, r), S::SplatF(1.0f));
  const auto power = S::ShiftLeft32(S::Add32(n, S::Splat32(127)), 23);
  return S::Mul(y, S::FloatOf(power));
}

// 1 / (1 + e^-x).
template <class S>
inline typename S::F Sigmoid(typename S::F x) {
  const auto one = S::SplatF(1.0f);
  return S::Div(one, S::Add(one, Exp<S>(S::Sub(S::SplatF(0.0f), x))));
}

template <class S>
inline typename S::F Tanh(typename S::F x) {
  using F = typename S::F;
  const F one = S::SplatF(1.0f);
  const F large = S::Sub(one, S::Div(S::SplatF(2.0f), S::Add(Exp<S>(S::Add(x, x)), one)));
  const F z = S::Mul(x, x);
  F small = S::SplatF(-5.70498872745e-3f);
  small = S::Fma(small, z, S::SplatF(2.06390887954e-2f));
  small = S::Fma(small, z, S::SplatF(-5.37397155531e-2f));
  small = S::Fma(small, z, S::SplatF(1.33314422036e-1f));
  small = S::Fma(small, z, S::SplatF(-3.33332819422e-1f));
  small = S::Fma(S::Mul(small, z), x, x);
  return S::SelectLess(z, S::SplatF(0.625f * 0.625f), small, large);
}

}  // namespace nonstop::cpu
