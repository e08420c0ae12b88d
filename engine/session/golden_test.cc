// The two real models natively, teacher-forced on the reference logits of tests/data (made with
// llama.cpp from the same weights in f32): the same checks as tests/golden makes of the modules.
// Suites named Golden* run in the golden tier, optimised; set-up must have fetched the models.
#include <gtest/gtest.h>

#include <cmath>

#include "base/half.h"
#include "base/test_json.h"
#include "session/engine_for_test.h"

namespace nonstop {
namespace {

TestJson ReadJson(const char* name) {
  const auto bytes = ReadTestFile(TestDataPath(name));
  CHECK(bytes.ok());
  return TestJson::Parse({reinterpret_cast<const char*>(bytes->data()), bytes->size()});
}

struct GoldenModel {
  const char* key;         // in the JSON
  const char* file;        // of .deps/models
  size_t shortest_prompt;  // tokens
  const char* exact_json;  // reference without llama.cpp's GELU table, where that matters
};

class GoldenNativeTest : public testing::TestWithParam<GoldenModel> {};

struct Totals {
  double largest_difference = 0.0;
  double kl_sum = 0.0;
  size_t step_count = 0;
  size_t decisive_count = 0;
  size_t wrong_count = 0;
};

float FindLogit(const std::vector<TokenProbability>& top, TokenId id, float* logprob) {
  for (const TokenProbability& entry : top) {
    if (entry.id != id) continue;
    *logprob = entry.logprob;
    return entry.logit;
  }
  *logprob = -100.0f;
  return -INFINITY;
}

void CompareStep(const TestJson& want, const std::vector<TokenProbability>& top, Totals* totals) {
  double kl = 0.0;
  double rest = 1.0;
  double our_rest = 1.0;
  for (size_t i = 0; i < want["top_ids"].size(); ++i) {
    float logprob = 0.0f;
    const auto id = static_cast<TokenId>(want["top_ids"][i].AsInt());
    const double logit = static_cast<double>(FindLogit(top, id, &logprob));
    totals->largest_difference =
        std::max(totals->largest_difference, std::abs(logit - want["top_logits"][i].AsDouble()));
    const double p = std::exp(want["top_logprobs"][i].AsDouble());
    kl += p * (want["top_logprobs"][i].AsDouble() - static_cast<double>(logprob));
    rest -= p;
    our_rest -= std::exp(static_cast<double>(logprob));
  }
  if (rest > 1e-6 && our_rest > 1e-9) kl += rest * std::log(rest / our_rest);
  totals->kl_sum += kl;
  ++totals->step_count;
  const TestJson& logprobs = want["top_logprobs"];
  if (logprobs[size_t{0}].AsDouble() - logprobs[size_t{1}].AsDouble() <= 0.5) return;
  ++totals->decisive_count;
  if (top[0].id != want["top_ids"][size_t{0}].AsInt()) ++totals->wrong_count;
}

std::vector<TokenId> Ids(const TestJson& json, size_t limit) {
  std::vector<TokenId> ids;
  for (size_t i = 0; i < std::min(json.size(), limit); ++i) {
    ids.push_back(static_cast<TokenId>(json[i].AsInt()));
  }
  return ids;
}

// All cases whose prompt has at most `prompt_limit` tokens.
Totals Score(const GoldenModel& model, const EngineOptions& options, const char* json_name,
             size_t prompt_limit, const cpu::KernelSet* kernels = nullptr) {
  Totals totals;
  const TestJson json = ReadJson(json_name);
  cpu::Pool pool;
  auto engine = TestEngine::Load({TestModelPath(model.file)}, options, Loader::kMaxPieceBytes,
                                 MakeCpuFactory(&pool, options, kernels));
  EXPECT_TRUE(engine.ok()) << engine.error().message;
  if (!engine.ok()) return totals;
  for (const TestJson& golden : json[model.key]["cases"]) {
    if (golden["prompt_ids"].size() > prompt_limit) continue;
    RequestOptions request;
    request.prompt = Ids(golden["prompt_ids"], SIZE_MAX);
    request.forced = Ids(golden["greedy_ids"], golden["steps"].size());
    request.top_logprobs = 4096;
    const Reply reply = (*engine)->Run(std::move(request));
    EXPECT_EQ(reply.error, "");
    for (size_t i = 0; i < reply.top.size(); ++i) {
      CompareStep(golden["steps"][i], reply.top[i], &totals);
    }
  }
  EXPECT_GT(totals.step_count, 0u);
  EXPECT_EQ(totals.wrong_count, 0u) << "of " << totals.decisive_count;
  return totals;
}

// ./test takes the short prompts, ./test --full all of them.
bool IsFull() {
  const char* full = std::getenv("NONSTOP_FULL");
  return full != nullptr && std::string_view(full) == "1";
}

TEST_P(GoldenNativeTest, EightBitActivationsKeepTheDistribution) {
  const Totals totals = Score(GetParam(), {}, "golden_logits.json", IsFull() ? SIZE_MAX : 64);
  EXPECT_LT(totals.kl_sum / static_cast<double>(totals.step_count), 0.01);
  EXPECT_GT(totals.decisive_count, 100u);
}

TEST_P(GoldenNativeTest, F32ActivationsAndCacheGiveTheReferenceLogits) {
  EngineOptions options;
  options.activation = cpu::ActivationType::kF32;
  options.kv_type = cpu::KvType::kF32;
  const Totals totals = Score(GetParam(), options, GetParam().exact_json, IsFull() ? 64 : 13);
  EXPECT_LT(totals.largest_difference, 0.05);
}

TEST_P(GoldenNativeTest, TheReferenceKernelsGiveTheReferenceLogits) {
  EngineOptions options;
  options.uses_reference = true;
  options.activation = cpu::ActivationType::kF32;
  options.kv_type = cpu::KvType::kF32;
  const Totals totals =
      Score(GetParam(), options, GetParam().exact_json, GetParam().shortest_prompt);
  EXPECT_LT(totals.largest_difference, 0.05);
}

// llama.cpp's GELU on the CPU (ggml_vec_geglu_f32): a table of halves for halves between -10
// and 10. golden_logits.json holds what it does to Gemma's logits, so with it, and all else as it
// is, the kernels must meet that file; without it they meet golden_logits_exact.json.
void GeluMulByTable(const float* gate, const float* up, uint32_t length, float* y) {
  for (uint32_t i = 0; i < length; ++i) {
    float gelu = gate[i] <= -10.0f ? 0.0f : gate[i];
    if (std::abs(gate[i]) < 10.0f) {
      const double x = static_cast<double>(HalfToFloat(FloatToHalf(gate[i])));
      const double inner = 0.79788456080286535588 * x * (1.0 + 0.044715 * x * x);
      gelu = HalfToFloat(FloatToHalf(static_cast<float>(0.5 * x * (1.0 + std::tanh(inner)))));
    }
    y[i] = gelu * up[i];
  }
}

TEST(GoldenNativeGeluTest, WithLlamaCppsTableGemmaGivesTheLogitsMadeWithIt) {
  const GoldenModel gemma{"gemma3", "gemma-3-270m", 5, ""};
  EngineOptions options;
  options.activation = cpu::ActivationType::kF32;
  options.kv_type = cpu::KvType::kF32;
  const auto check = [&](cpu::KernelSet kernels, size_t prompt_limit) {
    kernels.gelu_mul = GeluMulByTable;
    const Totals totals = Score(gemma, options, "golden_logits.json", prompt_limit, &kernels);
    EXPECT_LT(totals.largest_difference, 0.05) << kernels.name;
  };
  check(cpu::kGenericKernels, IsFull() ? SIZE_MAX : 13);
  options.uses_reference = true;  // keeps the weights as its kernels read them
  check(cpu::kReferenceKernels, IsFull() ? 64 : gemma.shortest_prompt);
}

INSTANTIATE_TEST_SUITE_P(
    GoldenModels, GoldenNativeTest,
    testing::Values(GoldenModel{"smollm2", "smollm2-135m-instruct", 13, "golden_logits.json"},
                    GoldenModel{"gemma3", "gemma-3-270m", 5, "golden_logits_exact.json"}),
    [](const auto& info) { return info.param.key; });

}  // namespace
}  // namespace nonstop
