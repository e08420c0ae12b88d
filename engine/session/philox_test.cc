// Known answers of Philox4x32-10 (Random123, tests/kat_vectors) and the mapping to [0, 1).
#include "session/philox.h"

#include <gtest/gtest.h>

#include <set>

namespace nonstop {
namespace {

TEST(Philox, GivesTheKnownAnswers) {
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}),
            (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, UniformIsTheUpper24BitsOfTheFirstWord) {
  EXPECT_EQ(PhiloxUniform(0, 0), static_cast<float>(0x6627e8) / 16777216.0f);
}

TEST(Philox, EveryBitOfSeedAndIndexMatters) {
  std::set<float> numbers = {PhiloxUniform(0, 0)};
  for (int bit = 0; bit < 64; ++bit) {
    numbers.insert(PhiloxUniform(uint64_t{1} << bit, 0));
    numbers.insert(PhiloxUniform(0, uint64_t{1} << bit));
  }
  EXPECT_EQ(numbers.size(), 129u);
}

// Chi-square with 99 degrees of freedom: 148.2 is the 99.9 % point.
TEST(Philox, UniformNumbersFillTheirHundredBinsEvenly) {
  constexpr int kDraws = 200000;
  for (const uint64_t seed : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}}) {
    int counts[100] = {};
    for (int i = 0; i < kDraws; ++i) {
      const float number = PhiloxUniform(seed, static_cast<uint64_t>(i));
      ASSERT_GE(number, 0.0f);
      ASSERT_LT(number, 1.0f);
      ++counts[static_cast<int>(number * 100.0f)];
    }
    double chi_square = 0;
    for (const int count : counts) {
      const double difference = count - kDraws / 100.0;
      chi_square += difference * difference / (kDraws / 100.0);
    }
    EXPECT_LT(chi_square, 148.2) << seed;
  }
}

}  // namespace
}  // namespace nonstop
