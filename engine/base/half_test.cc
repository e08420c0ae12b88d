// All 65,536 halves against the definition of binary16, and rounding between all neighbours.
#include "base/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace nonstop {
namespace {

// IEEE 754-2008 binary16 by its definition, in double arithmetic.
double HalfByDefinition(uint32_t half) {
  const double sign = (half & 0x8000) != 0 ? -1 : 1;
  const auto exponent = static_cast<int>(half >> 10 & 31);
  const double mantissa = half & 1023;
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

bool IsHalfNan(uint32_t half) { return (half & 0x7fff) > 0x7c00; }

TEST(Half, ToFloatIsExactForAllValues) {
  for (uint32_t half = 0; half < 65'536; ++half) {
    const float value = HalfToFloat(static_cast<uint16_t>(half));
    if (IsHalfNan(half)) {
      EXPECT_TRUE(std::isnan(value)) << half;
    } else if ((half & 0x7fff) == 0x7c00) {
      EXPECT_TRUE(std::isinf(value)) << half;
    } else {
      EXPECT_EQ(value, HalfByDefinition(half)) << half;
    }
    EXPECT_EQ(std::signbit(value), (half & 0x8000) != 0) << half;
  }
}

TEST(Half, RoundTripsAllValues) {
  for (uint32_t half = 0; half < 65'536; ++half) {
    const uint16_t back = FloatToHalf(HalfToFloat(static_cast<uint16_t>(half)));
    if (IsHalfNan(half)) {
      EXPECT_TRUE(IsHalfNan(back)) << half;
    } else {
      EXPECT_EQ(back, half);
    }
  }
}

TEST(Half, RoundsToNearestEvenBetweenAllNeighbours) {
  for (uint32_t half = 0; half < 0x7bff; ++half) {
    const float low = HalfToFloat(static_cast<uint16_t>(half));
    const float high = HalfToFloat(static_cast<uint16_t>(half + 1));
    const float middle = (low + high) / 2;  // exact in f32
    EXPECT_EQ(FloatToHalf(middle), half + (half & 1)) << half;
    EXPECT_EQ(FloatToHalf(std::nextafterf(middle, low)), half);
    EXPECT_EQ(FloatToHalf(std::nextafterf(middle, high)), half + 1);
    EXPECT_EQ(FloatToHalf(-middle), 0x8000 | (half + (half & 1)));
  }
}

TEST(Half, OverflowsToInfinityHalfwayPastTheLargest) {
  EXPECT_EQ(FloatToHalf(65'504.0f), 0x7bff);
  EXPECT_EQ(FloatToHalf(std::nextafterf(65'520.0f, 0.0f)), 0x7bff);
  EXPECT_EQ(FloatToHalf(65'520.0f), 0x7c00);
  EXPECT_EQ(FloatToHalf(-std::numeric_limits<float>::infinity()), 0xfc00);
  EXPECT_EQ(FloatToHalf(std::numeric_limits<float>::denorm_min()), 0);
}

TEST(Half, Bfloat16IsTheUpperHalfOfAFloat) {
  EXPECT_EQ(Bfloat16ToFloat(0x3f80), 1.0f);
  EXPECT_EQ(Bfloat16ToFloat(0xc049), -3.140625f);
  EXPECT_TRUE(std::isnan(Bfloat16ToFloat(0x7fc0)));
}

}  // namespace
}  // namespace nonstop
