// exp and log against mpmath (within 1 ulp) and, for the same bits on every platform, against the
// hash of 20,000 results computed by exact_math_reference.py in Python.
#include "base/exact_math.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/test_random.h"

namespace nonstop {
namespace {

#include "base/exact_math_reference.inc"

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Distance in units of the last place of `want`, whose neighbours tell the unit.
double UlpDistance(double got, double want) {
  const double unit = std::nextafter(std::fabs(want), kInfinity) - std::fabs(want);
  return std::fabs(got - want) / unit;
}

TEST(ExactMath, ExpAndLogAreWithinOneUlpOfTheTruth) {
  for (const auto& row : kExpTable) EXPECT_LE(UlpDistance(ExactExp(row[0]), row[1]), 1) << row[0];
  for (const auto& row : kLogTable) EXPECT_LE(UlpDistance(ExactLog(row[0]), row[1]), 1) << row[0];
}

TEST(ExactMath, BitsEqualThoseOfThePythonReference) {
  Lcg random;
  uint64_t exp_hash = 0xCBF29CE484222325;
  uint64_t log_hash = exp_hash;
  for (int i = 0; i < 20000; ++i) {
    const double scaled = random.Fraction() * 1417.0;
    const double x = scaled - 708.0;
    exp_hash = Fnv(exp_hash, std::bit_cast<uint64_t>(ExactExp(x)));
    log_hash = Fnv(log_hash, std::bit_cast<uint64_t>(ExactLog(ExactExp(x))));
  }
  EXPECT_EQ(exp_hash, kExpHash);
  EXPECT_EQ(log_hash, kLogHash);
}

TEST(ExactMath, EdgesAreDefined) {
  EXPECT_EQ(ExactExp(0.0), 1.0);
  EXPECT_EQ(ExactExp(-kInfinity), 0.0);
  EXPECT_EQ(ExactExp(-708.1), 0.0);
  EXPECT_GT(ExactExp(-708.0), 0.0);
  EXPECT_EQ(ExactExp(kInfinity), kInfinity);
  EXPECT_TRUE(std::isfinite(ExactExp(709.0)));
  EXPECT_TRUE(std::isnan(ExactExp(std::nan(""))));
  EXPECT_EQ(ExactLog(1.0), 0.0);
  EXPECT_EQ(ExactLog(0.0), -kInfinity);
  EXPECT_EQ(ExactLog(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(ExactLog(-1.0)));
  EXPECT_TRUE(std::isnan(ExactLog(std::nan(""))));
}

// The C library is the outside value here: within 1 ulp of the truth itself.
TEST(ExactMath, CosSinPowAndTanhAgreeWithTheLibrary) {
  for (int i = -20'000; i <= 20'000; ++i) {
    const double x = i * 838.8607 / 3.0 + i * 1e-4;  // up to about 5.6e6
    const CosSin ours = ExactCosSin(x);
    ASSERT_NEAR(ours.cosine, std::cos(x), 4e-16) << x;
    ASSERT_NEAR(ours.sine, std::sin(x), 4e-16) << x;
    const double y = i * 1e-3;
    ASSERT_NEAR(ExactTanh(y), std::tanh(y), 4e-16) << y;
    ASSERT_NEAR(ExactPow(10'000.0, y / 20.0) / std::pow(10'000.0, y / 20.0), 1.0, 4e-15) << y;
  }
  EXPECT_EQ(ExactCosSin(0.0).cosine, 1.0);
  EXPECT_EQ(ExactCosSin(0.0).sine, 0.0);
  EXPECT_EQ(ExactTanh(1000.0), 1.0);
  EXPECT_EQ(ExactTanh(-1000.0), -1.0);
}

TEST(ExactMath, LaneSumAddsInItsWrittenOrder) {
  LaneSum sum;
  sum[0] = 1.0;  // 1 + 2^-53 rounds to 1, but 2^-53 + 2^-53 does not get lost
  sum[1] = 0x1p-53;
  sum[4] = 0x1p-53;
  sum[5] = 0x1p-53;
  EXPECT_EQ(sum.Total(), 1.0 + 0x1p-52);
  LaneSum other;
  other[0] = 1.0;
  other[1] = 0x1p-53;
  other[4] = 0x1p-53;
  EXPECT_EQ(other.Total(), 1.0);
}

}  // namespace
}  // namespace nonstop
