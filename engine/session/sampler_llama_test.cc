// The sampler against what llama.cpp's own samplers leave (tests/data/sampler.json, written by
// tools/reference/sampler_values.py): the same tokens, the same logits, the same probabilities.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/test_files.h"
#include "base/test_json.h"
#include "session/sampler.h"

namespace nonstop {
namespace {

struct Chain {
  SamplingOptions options;
  std::vector<LogitBias> biases;
  bool expressible = true;  // no min_keep, no order other than the default one
};

void ReadBiases(const TestJson& step, std::vector<LogitBias>* biases) {
  for (const TestJson& pair : step["biases"]) {
    const bool forbids = pair[size_t{1}].kind() == TestJson::Kind::kString;
    const float bias =
        forbids ? -std::numeric_limits<float>::infinity() : pair[size_t{1}].AsFloat();
    biases->push_back({static_cast<TokenId>(pair[size_t{0}].AsInt()), bias});
  }
}

// The place of the step in the default order; fills in its options.
int ReadStep(const TestJson& step, Chain* chain) {
  SamplingOptions& options = chain->options;
  const std::string& name = step["name"].AsString();
  if (step.Has("min_keep") && step["min_keep"].AsInt() > 1) chain->expressible = false;
  if (name == "logit_bias") {
    ReadBiases(step, &chain->biases);
    return 0;
  }
  if (name == "penalties") {
    options.penalty_last_n = static_cast<int32_t>(step["last_n"].AsInt());
    options.repeat_penalty = step["repeat"].AsFloat();
    options.frequency_penalty = step["frequency"].AsFloat();
    options.presence_penalty = step["presence"].AsFloat();
    return 1;
  }
  if (name == "top_k") {
    options.top_k = static_cast<int32_t>(step["k"].AsInt());
    return 2;
  }
  if (name == "top_p") {
    options.top_p = step["p"].AsFloat();
    return 3;
  }
  if (name == "min_p") {
    options.min_p = step["p"].AsFloat();
    return 4;
  }
  CHECK(name == "temperature");
  options.temperature = step["t"].AsFloat();
  return 5;
}

Chain ReadChain(const TestJson& steps) {
  Chain chain;
  chain.options.temperature = 1.0f;
  chain.options.top_k = 0;
  chain.options.top_p = 1.0f;
  chain.options.min_p = 0.0f;
  int last_place = -1;
  for (const TestJson& step : steps) {
    const int place = ReadStep(step, &chain);
    if (place <= last_place) chain.expressible = false;
    last_place = place;
  }
  return chain;
}

void Compare(const Chain& chain, std::span<const Candidate> left, const TestJson& expected) {
  std::vector<Candidate> sorted(left.begin(), left.end());
  std::sort(sorted.begin(), sorted.end(), [](const Candidate& a, const Candidate& b) {
    return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
  });
  ASSERT_EQ(sorted.size(), expected["ids"].size());
  double sum = 0;
  for (const Candidate& candidate : sorted) sum += candidate.weight;
  const float temperature = chain.options.temperature > 0 ? chain.options.temperature : 1.0f;
  for (size_t i = 0; i < sorted.size(); ++i) {
    EXPECT_EQ(sorted[i].id, expected["ids"][i].AsInt());
    const float logit = expected["left_logits"][i].AsFloat();
    EXPECT_NEAR(sorted[i].logit / temperature, logit, 2e-6f * std::max(1.0f, std::fabs(logit)));
    const double probability = expected["probs"][i].AsDouble();
    EXPECT_NEAR(sorted[i].weight / sum, probability, 1e-5 * probability);
  }
}

TEST(SamplerLlama, LeavesTheTokensAndProbabilitiesThatLlamaCppLeaves) {
  const auto file = ReadTestFile(TestDataPath("sampler.json"));
  ASSERT_TRUE(file.ok()) << file.error().message;
  const TestJson root =
      TestJson::Parse({reinterpret_cast<const char*>(file->data()), file->size()});
  int compared = 0;
  int beyond_our_options = 0;
  for (const TestJson& test : root["cases"]) {
    SCOPED_TRACE(test["name"].AsString() + ", " + test["logits"].AsString());
    const Chain chain = ReadChain(test["chain"]);
    if (!chain.expressible) {
      ++beyond_our_options;
      continue;
    }
    std::vector<float> logits;
    for (const TestJson& logit : root["logits"][test["logits"].AsString()]) {
      logits.push_back(logit.AsFloat());
    }
    std::vector<TokenId> history;
    for (const TestJson& id : test["history"]) history.push_back(static_cast<TokenId>(id.AsInt()));
    Sampler sampler(chain.options, chain.biases);
    const auto left = sampler.Distribution(logits, history);
    ASSERT_TRUE(left.ok()) << left.error().message;
    Compare(chain, *left, test);
    ++compared;
  }
  EXPECT_EQ(compared, 58);
  EXPECT_EQ(beyond_our_options, 5);  // four with min_keep, one with the temperature first
}

TEST(SamplerLlama, DefaultsAreTheDefaultChain) {
  const auto file = ReadTestFile(TestDataPath("sampler.json"));
  ASSERT_TRUE(file.ok()) << file.error().message;
  const TestJson root =
      TestJson::Parse({reinterpret_cast<const char*>(file->data()), file->size()});
  for (const TestJson& test : root["cases"]) {
    if (test["name"].AsString() != "default chain") continue;
    const SamplingOptions expected = ReadChain(test["chain"]).options;
    const SamplingOptions defaults;
    EXPECT_EQ(defaults.temperature, expected.temperature);
    EXPECT_EQ(defaults.top_k, expected.top_k);
    EXPECT_EQ(defaults.top_p, expected.top_p);
    EXPECT_EQ(defaults.min_p, expected.min_p);
    EXPECT_EQ(defaults.repeat_penalty, expected.repeat_penalty);
    EXPECT_EQ(defaults.frequency_penalty, expected.frequency_penalty);
    EXPECT_EQ(defaults.presence_penalty, expected.presence_penalty);
    EXPECT_EQ(defaults.penalty_last_n, expected.penalty_last_n);
    return;
  }
  FAIL() << "The data hold no case \"default chain\".";
}

}  // namespace
}  // namespace nonstop
