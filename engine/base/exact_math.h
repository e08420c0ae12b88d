// exp and log with the same bits on every platform: IEEE additions, multiplications and divisions
// in a written order, no libm, no fused multiply-add. (WebAssembly, x86 and Arm then agree; a libm
// would not, and costs the module 25 KB.) The pragmas hold against -ffp-contract=on; =fast would
// override them, so the build says =off and the hashes in the tests would notice. The series are
// Taylor's, long enough that rounding dominates. exact_math_reference.py repeats them in Python and
// compares them with mpmath: exp within 1 ulp, log within 1 ulp.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace nonstop {

// ln 2 in two parts; the high one has 32 significant bits, so k * kLn2High is exact.
inline constexpr double kLog2E = 0x1.71547652b82fep+0;
inline constexpr double kLn2High = 0x1.62e42feep-1;
inline constexpr double kLn2Low = 0x1.a39ef35793c76p-33;

// exp(x). Below -708, where the result would lose bits, 0; above 709, infinity; NaN gives NaN.
// Branch-free: a loop over it becomes SIMD code with the same bits.
inline double ExactExp(double x) {
#pragma clang fp contract(off)
  constexpr double kRoundingShift = 0x1.8p52;  // x + shift keeps round(x) in the low bits
  const double bounded = x < -708.0 ? -708.0 : x;
  const double shifted = bounded * kLog2E + kRoundingShift;
  const double k = shifted - kRoundingShift;
  const double r = (bounded - k * kLn2High) - k * kLn2Low;  // |r| <= ln(2) / 2
  double sum = 0x1.6124613a86d09p-33;                       // 1/13!, then 1/12! ... 1/2!
  sum = sum * r + 0x1.1eed8eff8d898p-29;
  sum = sum * r + 0x1.ae64567f544e4p-26;
  sum = sum * r + 0x1.27e4fb7789f5cp-22;
  sum = sum * r + 0x1.71de3a556c734p-19;
  sum = sum * r + 0x1.a01a01a01a01ap-16;
  sum = sum * r + 0x1.a01a01a01a01ap-13;
  sum = sum * r + 0x1.6c16c16c16c17p-10;
  sum = sum * r + 0x1.1111111111111p-7;
  sum = sum * r + 0x1.5555555555555p-5;
  sum = sum * r + 0x1.5555555555555p-3;
  sum = sum * r + 0.5;
  sum = 1.0 + (r + (r * r) * sum);
  const uint64_t scale_bits = (std::bit_cast<uint64_t>(shifted) + 1023) << 52;  // 2^k
  const double result = sum * std::bit_cast<double>(scale_bits);
  const double upper = x > 709.0 ? std::numeric_limits<double>::infinity() : result;
  return x < -708.0 ? 0.0 : upper;
}

// The natural logarithm. Of 0: -infinity; of a negative number or NaN: NaN.
double ExactLog(double x);

// x to the power y for x > 0, as exp(y log x): a relative error of about |y log x| / 2^52.
inline double ExactPow(double x, double y) { return ExactExp(y * ExactLog(x)); }

// tanh(x), within 1e-16.
inline double ExactTanh(double x) { return 1.0 - 2.0 / (ExactExp(2.0 * x) + 1.0); }

struct CosSin {
  double cosine;
  double sine;
};
// Of an angle in radians, |x| <= 2^24, each within 2^-52.
CosSin ExactCosSin(double x);

// A sum whose order is part of its definition: term i goes to lane i mod 8, and the lanes are added
// as ((0 + 4) + (2 + 6)) + ((1 + 5) + (3 + 7)). SIMD code of 2, 4 or 8 lanes gives the same bits.
class LaneSum {
 public:
  static constexpr int kLanes = 8;
  double& operator[](int lane) { return lanes_[lane]; }
  double Total() const {
    return ((lanes_[0] + lanes_[4]) + (lanes_[2] + lanes_[6])) +
           ((lanes_[1] + lanes_[5]) + (lanes_[3] + lanes_[7]));
  }

 private:
  double lanes_[kLanes] = {};
};

}  // namespace nonstop
