// The natural logarithm of exact_math.h. With x = 2^e * (1 + f), 1 + f in [sqrt(1/2), sqrt(2)),
// s = f / (2 + f) and z = s^2: log(1 + f) = 2 atanh(s) = f - s * (f - R),
// R = 2 * (z/3 + z^2/5 + z^3/7 + ...). f is exact, so the last subtraction rounds about once.
#include "session/exact_math.h"

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

}  // namespace nonstop
