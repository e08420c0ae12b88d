// The sampler against sampler_reference.py (same candidates, same weight bits, same draws), its
// distribution by chi-square, and the edges: bad logits, nothing left, huge biases, ties.
#include "session/sampler.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <string>

#include "base/test_random.h"

namespace nonstop {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kMax = std::numeric_limits<float>::max();

struct Case {
  size_t vocabulary_size;
  double step;
  size_t history_length;
  std::array<LogitBias, 3> biases;  // id -1: none
  SamplingOptions options;          // seed apart
  size_t candidate_count;
  uint64_t candidate_hash;
  TokenId drawn[6];
};

struct SeedAndIndex {
  uint64_t seed;
  uint64_t index;
};
constexpr SeedAndIndex kSeeds[] = {{0, 0},
                                   {0, 1},
                                   {42, 0},
                                   {42, 77},
                                   {~uint64_t{0}, (uint64_t{1} << 40) + 5},
                                   {uint64_t{1} << 32, 3}};

#include "session/sampler_reference.inc"

std::vector<float> MakeLogits(size_t count, double step) {
  Lcg random;
  std::vector<float> logits(count);
  for (float& logit : logits) {
    const double twice = 2.0 * random.Fraction();
    const double u = twice - 1.0;
    double x = 12.0 * u * u * u;
    if (step > 0) x = std::floor(x / step) * step;
    logit = static_cast<float>(x);
  }
  return logits;
}

std::vector<TokenId> MakeHistory(size_t vocabulary_size, size_t length) {
  Lcg random;
  std::vector<TokenId> history(length);
  for (TokenId& id : history) {
    const double a = random.Fraction();
    const double b = random.Fraction();
    id = static_cast<TokenId>(a * b * static_cast<double>(vocabulary_size));
  }
  return history;
}

SamplingOptions Plain(float temperature) {
  SamplingOptions options;
  options.temperature = temperature;
  options.top_k = 0;
  options.top_p = 1.0f;
  options.min_p = 0.0f;
  return options;
}

std::vector<TokenId> Ids(const Result<std::span<const Candidate>>& candidates) {
  std::vector<TokenId> ids;
  if (candidates.ok()) {
    for (const Candidate& candidate : candidates.value()) ids.push_back(candidate.id);
  }
  return ids;
}

std::vector<TokenId> CandidateIds(const SamplingOptions& options, std::vector<LogitBias> biases,
                                  std::vector<float> logits, std::vector<TokenId> history = {}) {
  Sampler sampler(options, std::move(biases));
  return Ids(sampler.Distribution(logits, history));
}

TEST(Sampler, CandidatesWeightsAndDrawsEqualThePythonReferenceBitForBit) {
  for (size_t i = 0; i < std::size(kCases); ++i) {
    SCOPED_TRACE(i);
    const Case& c = kCases[i];
    const auto logits = MakeLogits(c.vocabulary_size, c.step);
    const auto history = MakeHistory(c.vocabulary_size, c.history_length);
    std::vector<LogitBias> biases;
    for (const LogitBias& bias : c.biases) {
      if (bias.id >= 0) biases.push_back(bias);
    }
    Sampler sampler(c.options, biases);
    const auto candidates = sampler.Distribution(logits, history);
    ASSERT_TRUE(candidates.ok()) << candidates.error().message;
    EXPECT_EQ(candidates->size(), c.candidate_count);
    uint64_t hash = 0xCBF29CE484222325;
    for (const Candidate& candidate : *candidates) {
      hash = Fnv(Fnv(hash, static_cast<uint64_t>(candidate.id)),
                 std::bit_cast<uint64_t>(candidate.weight));
    }
    EXPECT_EQ(hash, c.candidate_hash);
    for (size_t draw = 0; draw < std::size(kSeeds); ++draw) {
      SamplingOptions seeded = c.options;
      seeded.seed = kSeeds[draw].seed;
      const auto id = Sampler(seeded, biases).Sample(logits, history, kSeeds[draw].index);
      ASSERT_TRUE(id.ok()) << id.error().message;
      EXPECT_EQ(*id, c.drawn[draw]);
    }
  }
}

TEST(Sampler, ResultDependsOnSeedAndIndexOnly) {
  const auto logits = MakeLogits(500, 0);
  SamplingOptions options = Plain(1.0f);
  options.seed = 9;
  Sampler forwards(options, {});
  Sampler backwards(options, {});
  TokenId ids[64];
  int different = 0;
  for (uint64_t i = 0; i < 64; ++i) ids[i] = *forwards.Sample(logits, {}, i);
  for (uint64_t i = 64; i-- > 0;) {
    EXPECT_EQ(*backwards.Sample(logits, {}, i), ids[i]);
    different += ids[i] != ids[0];
  }
  EXPECT_GT(different, 32);
}

TEST(Sampler, RandomNumberZeroNeverHitsAnImpossibleToken) {
  SamplingOptions options = Plain(1.0f);
  options.seed = 12121362;  // its first number is 0
  ASSERT_EQ(PhiloxUniform(options.seed, 0), 0.0f);
  const std::vector<float> logits = {-1000.0f, -1000.0f, 5.0f, 5.0f};
  EXPECT_EQ(*Sampler(options, {}).Sample(logits, {}, 0), 2);
}

// Chi-square, 9 degrees of freedom: 27.88 is the 99.9 % point. Probabilities from the formula.
TEST(Sampler, DrawsFollowTheSoftmaxAtTheTemperature) {
  const std::vector<float> logits = {0.0f, 1.0f,  2.0f,  -1.0f, 0.5f,
                                     1.5f, -0.5f, 0.25f, 2.5f,  -2.0f};
  for (const float temperature : {0.5f, 1.0f, 2.0f}) {
    double sum = 0;
    for (const float logit : logits) sum += std::exp(static_cast<double>(logit / temperature));
    constexpr int kDraws = 40000;
    int counts[10] = {};
    for (int i = 0; i < kDraws; ++i) {
      SamplingOptions options = Plain(temperature);
      options.seed = static_cast<uint64_t>(i) * 7919;
      ++counts[*Sampler(options, {}).Sample(logits, {}, 3)];
    }
    double chi_square = 0;
    for (size_t id = 0; id < logits.size(); ++id) {
      const double expected =
          kDraws * std::exp(static_cast<double>(logits[id] / temperature)) / sum;
      chi_square += (counts[id] - expected) * (counts[id] - expected) / expected;
    }
    EXPECT_LT(chi_square, 27.88) << temperature;
  }
}

TEST(Sampler, TopPKeepsTheTokenThatReachesIt) {
  const std::vector<float> uniform(4, 1.0f);
  SamplingOptions options = Plain(1.0f);
  options.top_p = 0.5f;
  EXPECT_EQ(CandidateIds(options, {}, uniform), (std::vector<TokenId>{0, 1}));
  options.top_p = 0.51f;
  EXPECT_EQ(CandidateIds(options, {}, uniform), (std::vector<TokenId>{0, 1, 2}));
  options.top_p = 0.0f;
  EXPECT_EQ(CandidateIds(options, {}, uniform), (std::vector<TokenId>{0}));
}

TEST(Sampler, MinPComparesWithTheBestTokenBeforeTheTemperature) {
  // Probabilities 1 : 1/2 : 1/4 : 1/8 of the best.
  const float half = 0.69314718f;
  const std::vector<float> logits = {-3 * half, -half, 0.0f, -2 * half};
  SamplingOptions options = Plain(5.0f);
  options.min_p = 0.3f;
  EXPECT_EQ(CandidateIds(options, {}, logits), (std::vector<TokenId>{1, 2}));
  options.top_k = 4;
  EXPECT_EQ(CandidateIds(options, {}, logits), (std::vector<TokenId>{2, 1}));
  options.min_p = 1.0f;
  EXPECT_EQ(CandidateIds(options, {}, logits), (std::vector<TokenId>{2}));
}

TEST(Sampler, TopKPrefersTheSmallerIdAmongEqualLogits) {
  std::vector<float> logits(300, 1.0f);
  logits[200] = 2.0f;
  logits[5] = -0.0f;
  SamplingOptions options = Plain(1.0f);
  options.top_k = 4;
  EXPECT_EQ(CandidateIds(options, {}, logits), (std::vector<TokenId>{200, 0, 1, 2}));
  EXPECT_EQ(CandidateIds(options, {}, {-0.0f, 0.0f, -0.0f}), (std::vector<TokenId>{0, 1, 2}));
  options.top_k = std::numeric_limits<int32_t>::max();
  EXPECT_EQ(CandidateIds(options, {}, logits).size(), 300u);
}

TEST(Sampler, GreedyTakesTheFirstOfEqualBestLogits) {
  std::vector<float> logits(200, -1.0f);
  logits[70] = logits[130] = logits[199] = 3.0f;
  Sampler sampler(Plain(0.0f), {});
  EXPECT_EQ(*sampler.Sample(logits, {}, 0), 70);
  logits[199] = 3.5f;  // in the tail behind the whole blocks
  EXPECT_EQ(*sampler.Sample(logits, {}, 0), 199);
}

TEST(Sampler, RepeatPenaltyMultipliesNegativeAndDividesPositiveLogits) {
  SamplingOptions options = Plain(1.0f);
  options.repeat_penalty = 2.0f;
  options.frequency_penalty = 0.25f;
  options.presence_penalty = 0.5f;
  options.penalty_last_n = 4;
  Sampler sampler(options, {});
  const std::vector<float> logits = {4.0f, -4.0f, 4.0f, 0.0f};
  const std::vector<TokenId> history = {2, 2, 0, 0, 1, 3};  // the last four count
  const auto candidates = sampler.Distribution(logits, history);
  ASSERT_TRUE(candidates.ok());
  EXPECT_EQ((*candidates)[0].logit, 4.0f / 2 - 2 * 0.25f - 0.5f);
  EXPECT_EQ((*candidates)[1].logit, -4.0f * 2 - 0.25f - 0.5f);
  EXPECT_EQ((*candidates)[2].logit, 4.0f);
  EXPECT_EQ((*candidates)[3].logit, -0.75f);
  const auto unpenalised = sampler.Distribution(logits, {});
  EXPECT_EQ((*unpenalised)[0].logit, 4.0f);
  const std::vector<TokenId> strange = {-5, 4, kNoToken, std::numeric_limits<TokenId>::max()};
  EXPECT_EQ((*sampler.Distribution(logits, strange))[0].logit, 4.0f);
}

TEST(Sampler, RefusesNanAndInfinityWithTheToken) {
  for (const float bad : {kNan, kInfinity}) {
    for (const size_t at : {size_t{0}, size_t{63}, size_t{77}, size_t{99}}) {
      std::vector<float> logits(100, 1.0f);
      logits[at] = bad;
      for (const float temperature : {0.0f, 1.0f}) {
        SamplingOptions options = Plain(temperature);
        options.repeat_penalty = 1.5f;
        // Forbidding the token does not hide the damage.
        Sampler sampler(options, {{static_cast<TokenId>(at), -kInfinity}});
        const auto id = sampler.Sample(logits, std::vector<TokenId>{static_cast<TokenId>(at)}, 0);
        ASSERT_FALSE(id.ok());
        EXPECT_EQ(id.error().code, ErrorCode::kBadWeights);
        EXPECT_NE(id.error().message.find("(" + std::to_string(at) + ")"), std::string::npos);
      }
      EXPECT_EQ(TopLogprobs(logits, 3).error().code, ErrorCode::kBadWeights);
    }
  }
}

TEST(Sampler, SaysWhenNothingIsLeft) {
  const std::vector<float> none(5, -kInfinity);
  EXPECT_EQ(Sampler({}, {}).Sample(none, {}, 0).error().code, ErrorCode::kBadWeights);
  EXPECT_EQ(TopLogprobs(none, 1).error().code, ErrorCode::kBadWeights);
  EXPECT_EQ(Sampler({}, {}).Sample({}, {}, 0).error().code, ErrorCode::kInvalidArgument);
  const std::vector<float> two = {1.0f, 2.0f};
  Sampler forbidding({}, {{0, -kInfinity}, {1, -kInfinity}});
  EXPECT_EQ(forbidding.Sample(two, {}, 0).error().code, ErrorCode::kInvalidArgument);
  Sampler outside({}, {{2, 1.0f}});
  EXPECT_EQ(outside.Sample(two, {}, 0).error().code, ErrorCode::kInvalidArgument);
}

TEST(Sampler, ForbiddenTokensNeverComeUp) {
  std::vector<float> logits = {-kInfinity, 1.0f, -kInfinity, 1.0f, 9.0f};
  SamplingOptions options = Plain(1.0f);
  const std::vector<TokenId> expected = {1, 3};
  EXPECT_EQ(CandidateIds(options, {{4, -kInfinity}}, logits), expected);
  options.top_k = 5;
  EXPECT_EQ(CandidateIds(options, {{4, -kInfinity}}, logits), expected);
  options.top_p = 0.999f;
  EXPECT_EQ(CandidateIds(options, {{4, -kInfinity}}, logits), expected);
}

TEST(Sampler, HugeNumbersStayFinite) {
  SamplingOptions options = Plain(1e-30f);
  options.repeat_penalty = kMax;
  options.frequency_penalty = kMax;
  options.presence_penalty = -kMax;
  options.penalty_last_n = -1;
  Sampler sampler(options, {{0, kMax}, {0, kMax}, {1, -kMax}});
  const std::vector<float> logits = {kMax, -kMax, 0.0f};
  const std::vector<TokenId> history = {0, 0, 1, 1};
  const auto candidates = sampler.Distribution(logits, history);
  ASSERT_TRUE(candidates.ok()) << candidates.error().message;
  for (const Candidate& candidate : *candidates) {
    EXPECT_TRUE(std::isfinite(candidate.logit));
    EXPECT_TRUE(candidate.weight >= 0 && candidate.weight <= 1);
  }
  Sampler greedy(Plain(0.0f), {{1, kMax}});
  EXPECT_EQ(*greedy.Sample(std::vector<float>{1.0f, 2.0f, 3.0f}, {}, 0), 1);
  // 30 nats times 10^30: only the best is left.
  EXPECT_EQ(*Sampler(Plain(1e-30f), {}).Sample(std::vector<float>{0.0f, 30.0f}, {}, 0), 1);
}

TEST(TopLogprobs, AreTheLogSoftmaxOfTheRawLogits) {
  const auto logits = MakeLogits(1003, 0.25);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
  const auto top = TopLogprobs(logits, 20);
  ASSERT_TRUE(top.ok());
  ASSERT_EQ(top->size(), 20u);
  for (size_t i = 0; i < top->size(); ++i) {
    const TokenProbability& token = (*top)[i];
    EXPECT_EQ(token.logit, logits[static_cast<size_t>(token.id)]);
    EXPECT_NEAR(token.logprob, token.logit - std::log(sum), 1e-6);
    if (i == 0) continue;
    const TokenProbability& before = (*top)[i - 1];
    EXPECT_TRUE(before.logit > token.logit ||
                (before.logit == token.logit && before.id < token.id));
  }
  EXPECT_EQ(TopLogprobs(logits, 5000)->size(), logits.size());
  EXPECT_EQ(TopLogprobs(logits, 0)->size(), 0u);
  EXPECT_EQ((*TopLogprobs(std::vector<float>{7.0f}, 1))[0].logprob, 0.0f);
}

TEST(SamplingOptions, RefusesWhatCannotBeMeant) {
  const auto message_of = [](auto change) {
    SamplingOptions options;
    change(options);
    const Status status = CheckSamplingOptions(options);
    return status.ok() ? std::string() : status.error().message;
  };
  EXPECT_EQ(message_of([](auto&) {}), "");
  EXPECT_EQ(message_of([](auto& o) { o.temperature = -1; }), "");
  EXPECT_EQ(message_of([](auto& o) { o.presence_penalty = -2; }), "");
  EXPECT_EQ(message_of([](auto& o) { o.top_p = 7; }), "");
  EXPECT_EQ(message_of([](auto& o) { o.top_p = -0.5f; }),
            "The option top_p (-0.5) must be at least 0.");
  EXPECT_EQ(message_of([](auto& o) { o.min_p = 1.5f; }),
            "The option min_p (1.5) must be at most 1.");
  EXPECT_EQ(message_of([](auto& o) { o.repeat_penalty = 0; }),
            "The option repeat_penalty (0) must be greater than 0.");
  for (const float bad : {kNan, kInfinity, -kInfinity}) {
    EXPECT_NE(message_of([&](auto& o) { o.temperature = bad; }), "");
    EXPECT_NE(message_of([&](auto& o) { o.top_p = bad; }), "");
    EXPECT_NE(message_of([&](auto& o) { o.min_p = bad; }), "");
    EXPECT_NE(message_of([&](auto& o) { o.frequency_penalty = bad; }), "");
    EXPECT_NE(message_of([&](auto& o) { o.presence_penalty = bad; }), "");
    EXPECT_NE(message_of([&](auto& o) { o.repeat_penalty = bad; }), "");
  }
  EXPECT_NE(message_of([](auto& o) { o.penalty_last_n = -2; }), "");
  EXPECT_FALSE(CheckLogitBiases(std::vector<LogitBias>{{0, kNan}}, 1).ok());
  EXPECT_FALSE(CheckLogitBiases(std::vector<LogitBias>{{0, kInfinity}}, 1).ok());
  EXPECT_FALSE(CheckLogitBiases(std::vector<LogitBias>{{-1, 0}}, 1).ok());
  EXPECT_TRUE(CheckLogitBiases(std::vector<LogitBias>{{0, -kInfinity}}, 1).ok());
}

}  // namespace
}  // namespace nonstop
