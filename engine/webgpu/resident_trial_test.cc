// Which plan a model is decoded with, by what the trial of the resident plan sees: a null GPU whose
// logits and times are scripted.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "port/null_gpu.h"
#include "session/engine_for_test.h"
#include "webgpu/backend.h"

namespace nonstop {
namespace {

constexpr uint32_t kRecordBytes = RecordLayout::kWords * sizeof(uint32_t);
constexpr uint32_t kResidentDispatches =
    3;  // of a token without the choice: embedding, layers, head

struct Script {
  double chain_us = 1000.0;  // a token
  double resident_us = 500.0;
  uint32_t wrong_count = 0;   // resident runs of the trial that give other logits
  uint32_t left_to_host = 0;  // steps whose token is not chosen
  uint32_t sequence_count = 1;
  uint32_t fast_count = 100;  // numbers of rows (1, 2, 4, 8) that the resident plan is faster for
};

struct Outcome {
  bool is_resident = false;
  uint32_t dispatches_per_token = 0;
  uint32_t resident_run_count = 0;  // of the trial
  Reply reply;
};

Outcome RunScript(Script script, bool is_software = false) {
  NullGpu gpu;
  gpu.set_subgroups(32);
  gpu.set_fallback(is_software);
  EngineOptions options;
  options.context_length = 300;
  options.prefill_chunk = 16;
  options.max_sequence_count = script.sequence_count;
  auto engine =
      TestEngine::Load({TestDataPath("tiny/llama_tied.gguf")}, options, Loader::kMaxPieceBytes,
                       std::make_unique<WebGpuBackendFactory>(&gpu));
  Outcome outcome;
  EXPECT_TRUE(engine.ok());
  if (!engine.ok()) return outcome;
  TestEngine& test = **engine;
  uint32_t chain_dispatches = 0;  // of a token: the trial begins with one
  uint32_t seen_dispatches = gpu.counts().dispatches;
  uint32_t index = 0;
  bool is_trial = true;
  gpu.set_fill_readback([&](const GpuReadback& readback) {
    const uint32_t count = gpu.counts().dispatches - seen_dispatches;
    seen_dispatches = gpu.counts().dispatches;
    if (readback.size_bytes == kRecordBytes) {
      is_trial = false;
      const bool is_left = script.left_to_host > 0;
      if (is_left) --script.left_to_host;
      const uint32_t record[RecordLayout::kWords] = {1, ++index, is_left ? 1u : 0u, 0};
      std::memcpy(readback.destination, record, kRecordBytes);
      return;
    }
    if (!is_trial) return;
    if (chain_dispatches == 0) chain_dispatches = count;
    if (count % chain_dispatches == 0) {
      test.clock().added_us += script.chain_us * count / chain_dispatches;
      return;
    }
    if (count % kResidentDispatches != 0) return;  // the prompt's
    const bool is_fast = outcome.resident_run_count < 2 * script.fast_count;
    test.clock().added_us +=
        (is_fast ? script.resident_us : 2.0 * script.chain_us) * count / kResidentDispatches;
    ++outcome.resident_run_count;
    if (outcome.resident_run_count > script.wrong_count) return;
    const float nan = NAN;
    std::memcpy(readback.destination, &nan, sizeof(nan));
  });
  RequestOptions request;
  request.prompt = {5};
  request.max_tokens = 8;
  request.ignores_end = true;
  outcome.reply = test.Run(request);
  EXPECT_EQ(outcome.reply.error, "");
  EXPECT_EQ(outcome.reply.tokens.size(), 8u);
  outcome.is_resident = test.engine().stats().is_resident;
  outcome.dispatches_per_token = test.engine().stats().dispatches_per_token;
  return outcome;
}

TEST(ResidentTrialTest, WhatIsFasterAndRightIsTaken) {
  const Outcome outcome = RunScript({});
  EXPECT_TRUE(outcome.is_resident);
  EXPECT_EQ(outcome.dispatches_per_token, kResidentDispatches + 2);
  EXPECT_EQ(outcome.resident_run_count, 2u);  // one to compare, one to time
}

TEST(ResidentTrialTest, WhatIsNotFasterIsNot) {
  const Outcome outcome = RunScript({.resident_us = 990.0});
  EXPECT_FALSE(outcome.is_resident);
  EXPECT_GT(outcome.dispatches_per_token, kResidentDispatches + 2);
}

TEST(ResidentTrialTest, FewerWorkgroupsAreTriedUntilTheLogitsAreRight) {
  const Outcome outcome = RunScript({.wrong_count = 2});
  EXPECT_TRUE(outcome.is_resident);
  EXPECT_EQ(outcome.resident_run_count, 4u);
}

TEST(ResidentTrialTest, WhatIsNeverRightIsGivenUp) {
  const Outcome outcome = RunScript({.wrong_count = 100});
  EXPECT_FALSE(outcome.is_resident);
  EXPECT_EQ(outcome.resident_run_count, 5u);  // with 128, 64, 32, 16, 8 workgroups
}

TEST(ResidentTrialTest, SeveralRowsAreTriedToo) {
  const Outcome outcome = RunScript({.sequence_count = 8});
  EXPECT_TRUE(outcome.is_resident);
  EXPECT_EQ(outcome.resident_run_count, 8u);  // compared and timed with 1, 2, 4 and 8 rows
}

TEST(ResidentTrialTest, MoreRowsThanItIsFasterForAreNotTried) {
  const Outcome outcome = RunScript({.sequence_count = 8, .fast_count = 2});
  EXPECT_TRUE(outcome.is_resident);
  EXPECT_EQ(outcome.dispatches_per_token, kResidentDispatches + 2);
  EXPECT_EQ(outcome.resident_run_count, 6u);
}

TEST(ResidentTrialTest, WhatIsNotFasterForOneRowIsNotTriedForMore) {
  const Outcome outcome = RunScript({.sequence_count = 8, .fast_count = 0});
  EXPECT_FALSE(outcome.is_resident);
  EXPECT_EQ(outcome.resident_run_count, 2u);
}

TEST(ResidentTrialTest, ASoftwareAdapterIsNotTried) {
  const Outcome outcome = RunScript({}, /*is_software=*/true);
  EXPECT_FALSE(outcome.is_resident);
  EXPECT_EQ(outcome.resident_run_count, 0u);
}

// The chain computes what is left to the host; a plan that leaves everything works no more.
TEST(ResidentTrialTest, APlanThatLeavesTokensToTheHostIsDropped) {
  const Outcome once = RunScript({.left_to_host = 1});
  EXPECT_TRUE(once.is_resident);
  const Outcome often = RunScript({.left_to_host = 100});
  EXPECT_FALSE(often.is_resident);
}

TEST(ResidentTrialTest, TheCpuHasNoSuchPlan) {
  for (const char* plan : {"resident", "resident-1"}) {
    EngineOptions options;
    options.plan_name = plan;
    const auto engine = TestEngine::Load({TestDataPath("tiny/llama_tied.gguf")}, options);
    ASSERT_FALSE(engine.ok());
    EXPECT_EQ(engine.error().code, ErrorCode::kBackendFailed);
  }
}

}  // namespace
}  // namespace nonstop
