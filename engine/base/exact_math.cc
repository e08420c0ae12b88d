// The natural logarithm, sine and cosine of exact_math.h. The logarithm: With x = 2^e * (1 + f), 1
// + f in [sqrt(1/2), sqrt(2)), s = f / (2 + f) and z = s^2: log(1 + f) = 2 atanh(s) = f - s * (f -
// R), R = 2 * (z/3 + z^2/5 + z^3/7 + ...). f is exact, so the last subtraction rounds about once.
#include "base/exact_math.h"

namespace nonstop {

double ExactLog(double x) {
#pragma clang fp contract(off)
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (!(x > 0.0)) return x == 0.0 ? -kInfinity : std::numeric_limits<double>::quiet_NaN();
  if (x == kInfinity) return x;
  int64_t exponent = 0;
  if (x < std::numeric_limits<double>::min()) {  // subnormal
    x *= 0x1p54;
    exponent = -54;
  }
  constexpr uint64_t kSqrtHalfBits = 0x3fe6a09e667f3bcd;
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  const int64_t steps = static_cast<int64_t>(bits - kSqrtHalfBits) >> 52;
  exponent += steps;
  const double f = std::bit_cast<double>(bits - (static_cast<uint64_t>(steps) << 52)) - 1.0;
  const double s = f / (2.0 + f);
  const double z = s * s;
  double series = 0.0;  // z <= 0.0295: twelve terms reach 2^-60
  for (int term = 12; term >= 1; --term) series = (series + 2.0 / (2 * term + 1)) * z;
  const double k = static_cast<double>(exponent);
  return k * kLn2High - ((s * (f - series) - k * kLn2Low) - f);
}

namespace {

// pi / 2 in three parts; the first two have 29 bits, so k times them is exact for k < 2^24.
constexpr double kHalfPi1 = 0x1.921fb54p+0;
constexpr double kHalfPi2 = 0x1.10b4611p-30;
constexpr double kHalfPi3 = 0x1.4c4c6628b80dcp-59;
constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;

// Taylor's series of sin (first = 3) or cos (first = 2) after the leading term, in z = r^2:
// -z/(first (first-1)) (1 - z/((first+2)(first+1)) (1 - ...)).
double TrigonometricSeries(double z, int first) {
#pragma clang fp contract(off)
  double sum = 0.0;
  for (int n = first + 14; n >= first; n -= 2) sum = -z / (n * (n - 1)) * (1.0 + sum);
  return sum;
}

}  // namespace

CosSin ExactCosSin(double x) {
#pragma clang fp contract(off)
  constexpr double kRoundingShift = 0x1.8p52;
  const double shifted = x * kTwoOverPi + kRoundingShift;
  const double k = shifted - kRoundingShift;
  const double r = ((x - k * kHalfPi1) - k * kHalfPi2) - k * kHalfPi3;  // |r| <= pi / 4
  const double z = r * r;
  const double sine = r + r * TrigonometricSeries(z, 3);
  const double cosine = 1.0 + TrigonometricSeries(z, 2);
  switch (std::bit_cast<uint64_t>(shifted) & 3) {  // the quadrant
    case 0:
      return {cosine, sine};
    case 1:
      return {-sine, cosine};
    case 2:
      return {-cosine, -sine};
    default:
      return {sine, -cosine};
  }
}

}  // namespace nonstop
