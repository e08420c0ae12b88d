// Every tiny model under every plan on the null GPU, which refuses what a real one would at its
// default limits: bindings, workgroups, buffers bound for reading and for writing. And what a token
// costs.
#include <gtest/gtest.h>

#include <cstring>

#include "graph/passes/passes.h"
#include "port/null_gpu.h"
#include "session/engine_for_test.h"
#include "webgpu/backend.h"

namespace nonstop {
namespace {

// One of each architecture, under every plan.
constexpr const char* kArchitectures[] = {"llama_tied", "llama3_rope", "qwen2", "qwen3",
                                          "gemma3",     "gemma2",      "phi3",  "type_mix_k"};
constexpr const char* kOthers[] = {"llama_untied",  "mistral",   "qwen2_yarn",  "gemma2_27b",
                                   "phi3_longrope", "type_f32",  "type_f16",    "type_bf16",
                                   "type_q4_0",     "type_q4_1", "type_q5_0",   "type_q5_1",
                                   "type_q8_0",     "type_q2_k", "type_q3_k",   "type_q4_k",
                                   "type_q5_k",     "type_q6_k", "type_iq4_nl", "type_mix_small"};

std::string PathOf(const char* model) { return std::string("tests/data/tiny/") + model + ".gguf"; }

// Answers for the kernels that choose tokens: token 1, with the index that is due.
void ChooseTokens(NullGpu& gpu) {
  constexpr uint32_t kRecordBytes = RecordLayout::kWords * sizeof(uint32_t);
  gpu.set_fill_readback([index = 0u](const GpuReadback& readback) mutable {
    if (readback.size_bytes != kRecordBytes) return;
    const uint32_t record[RecordLayout::kWords] = {1, ++index, 0, 0};  // the prompt has given 0
    std::memcpy(readback.destination, record, kRecordBytes);
  });
}

// A request's whole run on a null GPU.
struct NullRun {
  Reply reply;
  GpuCounts before;  // when the model was loaded
  GpuCounts after;
  uint32_t dispatches_per_token = 0;
};

NullRun RunOn(NullGpu& gpu, const char* model, EngineOptions options, uint32_t prompt_count,
              uint32_t token_count) {
  NullRun run;
  auto engine = TestEngine::Load({PathOf(model)}, options, Loader::kMaxPieceBytes,
                                 std::make_unique<WebGpuBackendFactory>(&gpu));
  if (!engine.ok()) {
    ADD_FAILURE() << model << ": " << engine.error().message;
    return run;
  }
  RequestOptions request;
  request.prompt.assign(prompt_count, 1);
  request.max_tokens = token_count;
  request.ignores_end = true;
  ChooseTokens(gpu);
  run.before = gpu.counts();
  run.reply = (*engine)->Run(request);
  run.after = gpu.counts();
  run.dispatches_per_token = (*engine)->engine().stats().dispatches_per_token;
  EXPECT_EQ(run.reply.error, "") << model << " " << options.plan_name;
  EXPECT_EQ(run.reply.tokens.size(), token_count) << model << " " << options.plan_name;
  return run;
}

EngineOptions Options(const char* plan, uint32_t prefill_chunk = 16) {
  EngineOptions options;
  options.context_length = 300;
  options.plan_name = plan;
  options.prefill_chunk = prefill_chunk;
  return options;
}

class LoweringTest : public testing::TestWithParam<const char*> {};

TEST_P(LoweringTest, EveryPlanIsLegalAtDefaultLimits) {
  for (const PlanInfo& plan : GetPlanTable()) {
    NullGpu gpu;
    RunOn(gpu, GetParam(), Options(plan.name), 20, 3);
    NullGpu gpu_f32;
    EngineOptions options =
        Options(plan.name, 4);  // a prompt in runs that are as small as decode's
    options.kv_type = cpu::KvType::kF32;
    options.max_sequence_count = 3;
    RunOn(gpu_f32, GetParam(), options, 9, 2);
  }
}

TEST_P(LoweringTest, ATokenIsOneSubmissionAndNoUpload) {
  NullGpu gpu;
  const NullRun short_run = RunOn(gpu, GetParam(), Options("fused"), 5, 2);
  NullGpu other;
  const NullRun long_run = RunOn(other, GetParam(), Options("fused"), 5, 12);
  EXPECT_EQ(long_run.after.submits - long_run.before.submits,
            short_run.after.submits - short_run.before.submits + 10);
  EXPECT_EQ(long_run.after.uploads - long_run.before.uploads,
            short_run.after.uploads - short_run.before.uploads);
  EXPECT_EQ(long_run.after.readback_bytes - short_run.after.readback_bytes,
            10 * RecordLayout::kWords * sizeof(uint32_t));
  EXPECT_EQ(long_run.after.dispatches - short_run.after.dispatches,
            10 * long_run.dispatches_per_token);
  EXPECT_EQ(long_run.after.pipelines, short_run.after.pipelines);
  EXPECT_EQ(long_run.after.bind_groups, short_run.after.bind_groups);
}

INSTANTIATE_TEST_SUITE_P(All, LoweringTest, testing::ValuesIn(kArchitectures),
                         [](const auto& info) { return std::string(info.param); });

TEST(Lowering, EveryTypeIsLegalAtDefaultLimits) {
  for (const char* model : kOthers) {
    NullGpu gpu;
    RunOn(gpu, model, Options("fused"), 20, 3);
  }
}

uint32_t LayerCount(const char* model) {
  auto engine = TestEngine::Load({PathOf(model)}, {});
  EXPECT_TRUE(engine.ok());
  const std::string json = *(*engine)->engine().ModelJson();
  const size_t at = json.find("\"layer_count\":") + 14;
  return static_cast<uint32_t>(std::atoi(json.c_str() + at));
}

struct Budget {
  const char* model;
  uint32_t per_layer;
  uint32_t rest;
};

TEST(Lowering, KeepsTheBudgetOfDispatches) {
  for (const Budget& budget :
       {Budget{"llama_tied", 5, 6}, Budget{"llama3_rope", 5, 6}, Budget{"mistral", 5, 6},
        Budget{"qwen2", 5, 6}, Budget{"qwen3", 6, 6}, Budget{"phi3", 5, 6}, Budget{"gemma2", 7, 8},
        Budget{"gemma3", 7, 8}}) {
    NullGpu gpu;
    const NullRun run = RunOn(gpu, budget.model, Options("fused"), 1, 3);
    const uint32_t layers = LayerCount(budget.model);
    EXPECT_LE(run.dispatches_per_token, budget.per_layer * layers + budget.rest) << budget.model;
    EXPECT_GE(run.dispatches_per_token, 5 * layers) << budget.model;
  }
}

// The models that it serves: a layer of five ops, types that are fetched and decoded apart, heads
// that a subgroup holds.
TEST(Lowering, TheResidentPlanIsLegalAndTakesFiveDispatches) {
  for (const char* model :
       {"llama_tied", "llama_untied", "llama3_rope", "llama_linear_rope", "qwen2", "qwen2_yarn",
        "mistral", "type_q4_0", "type_q4_1", "type_q5_0", "type_q5_1", "type_q8_0", "type_q4_k",
        "type_q5_k", "type_q6_k", "type_mix_k"}) {
    NullGpu gpu;
    gpu.set_subgroups(8);
    const NullRun run = RunOn(gpu, model, Options("resident-1"), 5, 3);
    EXPECT_EQ(run.dispatches_per_token, 5u) << model;
    NullGpu other;
    other.set_subgroups(8);
    EngineOptions several = Options("resident-1");
    several.max_sequence_count = 8;
    EXPECT_EQ(RunOn(other, model, several, 5, 3).dispatches_per_token, 5u) << model;
  }
}

// Teams of two rows at most, and two where there are two rows.
TEST(Lowering, RowsAreSharedByTeams) {
  Workload workload = {.fixed_count = 10, .team_rows = 2};
  const uint32_t counts[] = {1, 2, 2, 2, 3, 3, 4, 4};
  for (uint32_t rows = 1; rows <= 8; ++rows) {
    EXPECT_EQ(workload.Workgroups(rows)[0], 10 * counts[rows - 1]) << rows;
  }
  workload.most_together = 32;
  EXPECT_EQ(workload.Workgroups(6)[0], 30u);
  EXPECT_EQ(workload.Workgroups(8)[0], 32u);
  workload.team_rows = 1;
  EXPECT_EQ(workload.Workgroups(5)[0], 30u);  // six each
}

TEST(Lowering, ReadsBackTheLogitsOfWantedRowsOnly) {
  // Three chunks of a prompt, of which the last has logits; the others read one word.
  NullGpu gpu;
  const NullRun chunks = RunOn(gpu, "llama_tied", Options("fused", 16), 40, 1);
  NullGpu other;
  const NullRun whole = RunOn(other, "llama_tied", Options("fused", 64), 40, 1);
  const uint64_t row_bytes = whole.after.readback_bytes - whole.before.readback_bytes;
  EXPECT_GE(row_bytes, 4 * 256u);
  EXPECT_EQ(chunks.after.readback_bytes - chunks.before.readback_bytes, row_bytes + 2 * 4);
}

// Each run of a prompt takes 30 ms: once that is known, it comes in four submissions of the same
// dispatches.
TEST(Lowering, APromptThatKeepsTheGpuBusyComesInPieces) {
  const auto run = [](NullGpu& gpu, double run_us) {
    auto engine =
        TestEngine::Load({PathOf("llama_tied")}, Options("fused", 16), Loader::kMaxPieceBytes,
                         std::make_unique<WebGpuBackendFactory>(&gpu));
    EXPECT_TRUE(engine.ok());
    TestEngine& test = **engine;
    gpu.set_fill_readback([&](const GpuReadback&) { test.clock().added_us += run_us; });
    const GpuCounts before = gpu.counts();
    RequestOptions request;
    request.prompt.assign(64, 1);
    request.max_tokens = 1;
    EXPECT_EQ(test.Run(request).error, "");
    return std::pair(gpu.counts().submits - before.submits,
                     gpu.counts().dispatches - before.dispatches);
  };
  NullGpu fast;
  NullGpu slow;
  NullGpu software;
  fast.set_fallback(false);
  slow.set_fallback(false);
  software.set_fallback(true);
  const auto [fast_submits, dispatches] = run(fast, 100.0);
  EXPECT_EQ(fast_submits, 4u);
  EXPECT_EQ(run(slow, 30'000.0), std::pair(1u + 3u * 4u, dispatches));
  EXPECT_EQ(run(software, 30'000.0), std::pair(4u, dispatches));
}

TEST(Lowering, GrowsTheCacheBetweenTokens) {
  NullGpu gpu;
  EngineOptions options = Options("fused");
  options.context_length = 1200;
  const NullRun run = RunOn(gpu, "llama_tied", options, 500, 200);
  // More pages than there were at the start: new buffers, and bind groups for them.
  EXPECT_GT(run.after.buffer_bytes, run.before.buffer_bytes);
  EXPECT_GT(run.after.bind_groups, run.before.bind_groups);
}

}  // namespace
}  // namespace nonstop
