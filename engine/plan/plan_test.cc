// Plans of the tiny models: how many steps, memory that does not clash, and a null GPU that would
// refuse what WebGPU refuses.
#include "plan/plan.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/test_files.h"
#include "graph/passes/passes.h"
#include "graph/text.h"
#include "model/model.h"
#include "plan/memory.h"
#include "port/null_gpu.h"

namespace nonstop {
namespace {

GgufSet ReadHeader(const std::string& name) {
  const auto bytes = ReadTestFile(TestDataPath("tiny/" + name + ".gguf"));
  CHECK(bytes.ok());
  GgufParser parser;
  CHECK(*parser.Push(*bytes));
  std::vector<Gguf> files;
  files.push_back(parser.Take());
  Result<GgufSet> set = GgufSet::Create(std::move(files));
  CHECK(set.ok());
  return std::move(*set);
}

Plan MakeTinyPlan(const std::string& model, std::string_view plan_name, Phase phase,
                  const PlanLimits& limits) {
  const GgufSet files = ReadHeader(model);
  const Result<ModelSpec> spec = ReadModelSpec(files);
  CHECK(spec.ok());
  Result<Graph> graph = BuildGraph(files, *spec, phase);
  CHECK(graph.ok());
  const Status passed = RunPasses(*FindPlan(plan_name), &*graph);
  EXPECT_TRUE(passed.ok()) << passed.error().message;
  Result<Plan> plan = MakePlan(std::string(plan_name), std::move(*graph), limits);
  EXPECT_TRUE(plan.ok()) << plan.error().message;
  return std::move(*plan);
}

struct StepCount {
  const char* model;
  const char* plan;
  Phase phase;
  size_t count;
};

class StepCountTest : public testing::TestWithParam<StepCount> {};

TEST_P(StepCountTest, IsWhatTheLayersSay) {
  const StepCount& want = GetParam();
  const PlanLimits limits = {.token_rows = want.phase == Phase::kDecode ? 1u : 16u};
  const Plan plan = MakeTinyPlan(want.model, want.plan, want.phase, limits);
  EXPECT_EQ(plan.steps.size(), want.count) << PlanToText(plan);
}

// Embed and head, and per layer: 5 fused steps; two more where a block's output is normed; prefill
// selects rows of the attention and of the residual. Unfused: six a norm, 10 others in attention
// (Q, K, V, two RoPE, write, attention, projection, add), 6 in the feed-forward.
INSTANTIATE_TEST_SUITE_P(
    All, StepCountTest,
    testing::Values(StepCount{"llama_tied", "fused", Phase::kDecode, 2 + 5 * 2},
                    StepCount{"llama_tied", "fused", Phase::kPrefill, 4 + 5 * 2},
                    StepCount{"llama_tied", "rms-norm", Phase::kDecode, 3 + (11 + 6) * 2 - 1 + 1},
                    StepCount{"llama_tied", "unfused", Phase::kDecode, 8 + (6 + 9 + 6 + 6) * 2},
                    StepCount{"qwen2", "fused", Phase::kDecode, 2 + 5 * 2},
                    StepCount{"qwen3", "fused", Phase::kDecode, 2 + 5 * 2},
                    StepCount{"phi3", "fused", Phase::kDecode, 2 + 5 * 2},
                    StepCount{"gemma3", "fused", Phase::kDecode, 2 + 7 * 8},
                    StepCount{"gemma2", "fused", Phase::kDecode, 2 + 7 * 4}));

constexpr const char* kModels[] = {"llama_tied", "qwen2", "qwen3", "gemma2", "gemma3", "phi3"};

TEST(Plan, EveryPlanOfEveryArchitectureVerifies) {
  for (const char* model : kModels) {
    for (const PlanInfo& info : GetPlanTable()) {
      for (const Phase phase : {Phase::kPrefill, Phase::kDecode}) {
        const Plan plan = MakeTinyPlan(model, info.name, phase, {.token_rows = 8});
        const Status status = VerifyPlan(plan);
        EXPECT_TRUE(status.ok()) << model << " " << info.name << ": " << status.error().message;
      }
    }
  }
}

TEST(Plan, UsesFewArenasAndLittleMemory) {
  for (const char* model : kModels) {
    const Plan plan = MakeTinyPlan(model, "fused", Phase::kPrefill, {.token_rows = 32});
    EXPECT_LE(plan.arena_sizes_bytes.size(), 4u) << model;
    uint64_t all_bytes = 0;
    for (const Value& value : plan.graph.values) {
      if (value.kind == ValueKind::kActivation) all_bytes += 32 * value.width * sizeof(float);
    }
    uint64_t used_bytes = 0;
    for (uint64_t size_bytes : plan.arena_sizes_bytes) used_bytes += size_bytes;
    EXPECT_LT(used_bytes, all_bytes / 2) << model << "\n" << MemoryToText(plan);
  }
}

TEST(Plan, TheVerifierSeesAClash) {
  Plan plan = MakeTinyPlan("llama_tied", "fused", Phase::kDecode, {});
  // The attention's output moved onto its query.
  for (const Step& step : plan.steps) {
    if (step.op != OpKind::kAttention) continue;
    Binding& q = plan.bindings[step.binding_begin];
    Binding& out = plan.bindings[step.binding_begin + step.binding_count - 1];
    out.arena = q.arena;
    out.offset_bytes = q.offset_bytes;
    break;
  }
  EXPECT_EQ(VerifyPlan(plan).error().message.substr(0, 40),
            "Step (attention) reads and writes arena ");
}

TEST(Plan, TheVerifierSeesAnOverwrittenValue) {
  Plan plan = MakeTinyPlan("llama_tied", "fused", Phase::kDecode, {});
  // The query written where the residual stream lies, which a later step reads.
  Binding* residual = nullptr;
  for (Step& step : plan.steps) {
    if (step.op != OpKind::kNormQkv) continue;
    residual = &plan.bindings[step.binding_begin];
    Binding& q = plan.bindings[step.binding_begin + step.binding_count - 2];
    residual->access = Access::kReadWrite;
    q.arena = residual->arena;
    q.offset_bytes = residual->offset_bytes;
    break;
  }
  ASSERT_NE(residual, nullptr);
  EXPECT_FALSE(VerifyPlan(plan).ok());
}

TEST(MemoryPlan, UpdatesTheResidualInPlace) {
  const Result<Graph> graph = GraphFromText(
      "%0 = embed($ids, @t[50, 64]:F32)\n"
      "%1 = matmul(%0, @w[64, 64]:F32)\n"
      "%2 = matmul_add(%1, @v[64, 64]:F32, %0)\n"
      "%3 = matmul(%2, @head[50, 64]:F32)\n"
      "return %3\n");
  ASSERT_TRUE(graph.ok());
  const MemoryPlan plan = PlanMemory(*graph, {});
  const auto output_of = [&](size_t node) { return graph->nodes[node].outputs[0]; };
  EXPECT_EQ(plan.in_place_of[output_of(2)], output_of(0));
  EXPECT_EQ(plan.placements[output_of(2)].arena, plan.placements[output_of(0)].arena);
  EXPECT_NE(plan.placements[output_of(1)].arena, plan.placements[output_of(0)].arena);
}

TEST(MemoryPlan, DoesNotUpdateInPlaceWhatIsReadLater) {
  const Result<Graph> graph = GraphFromText(
      "%0 = embed($ids, @t[50, 64]:F32)\n"
      "%1 = matmul_add(%0, @v[64, 64]:F32, %0)\n"
      "%2 = silu(%0)\n"
      "%3 = add(%1, %2)\n"
      "return %3\n");
  ASSERT_TRUE(graph.ok());
  const MemoryPlan plan = PlanMemory(*graph, {});
  EXPECT_EQ(plan.in_place_of[graph->nodes[1].outputs[0]], kNoValue);
  EXPECT_NE(plan.placements[graph->nodes[1].outputs[0]].arena,
            plan.placements[graph->nodes[0].outputs[0]].arena);
}

GpuPipelineId MakePipeline(NullGpu* gpu, std::span<const GpuBufferBinding> bindings) {
  std::vector<GpuAccess> access;
  for (const GpuBufferBinding& binding : bindings) access.push_back(binding.access);
  return *gpu->CreatePipeline({.name = "step", .wgsl = "", .bindings = access});
}

// A step's operands by buffer, as a GPU backend binds them: one buffer an arena, one for the
// weights, one for the cache, one for the state that the host or the sampler writes.
TEST(NullGpu, AcceptsEveryStepOfEveryFusedPlan) {
  for (const char* model : kModels) {
    const Plan plan = MakeTinyPlan(model, "fused", Phase::kDecode, {});
    NullGpu gpu;
    std::vector<GpuBufferId> arenas;
    for (uint64_t size_bytes : plan.arena_sizes_bytes) {
      arenas.push_back(*gpu.CreateBuffer(GpuBufferUsage::kActivations, size_bytes));
    }
    const GpuBufferId weights = *gpu.CreateBuffer(GpuBufferUsage::kWeights, 1 << 20);
    const GpuBufferId cache = *gpu.CreateBuffer(GpuBufferUsage::kCache, 1 << 20);
    const GpuBufferId state = *gpu.CreateBuffer(GpuBufferUsage::kState, 4096);
    std::vector<GpuDispatch> dispatches;
    for (const Step& step : plan.steps) {
      std::map<GpuBufferId, GpuAccess> access;
      for (const Binding& binding : plan.BindingsOf(step)) {
        if (binding.value == kNoValue) continue;
        const GpuBufferId buffer = binding.buffer == BufferKind::kArena    ? arenas[binding.arena]
                                   : binding.buffer == BufferKind::kWeight ? weights
                                   : binding.buffer == BufferKind::kCache  ? cache
                                                                           : state;
        const bool is_written = binding.access != Access::kRead;
        GpuAccess& merged = access.try_emplace(buffer, GpuAccess::kRead).first->second;
        if (is_written) merged = GpuAccess::kReadWrite;
      }
      std::vector<GpuBufferBinding> bindings;
      for (const auto& [buffer, how] : access) bindings.push_back({buffer, how, 0, 4096});
      const GpuPipelineId pipeline = MakePipeline(&gpu, bindings);
      const Result<GpuBindGroupId> group = gpu.CreateBindGroup(pipeline, bindings);
      ASSERT_TRUE(group.ok()) << model << ": " << group.error().message;
      dispatches.push_back({pipeline, *group, 0, {1, 1, 1}});
    }
    ASSERT_TRUE(gpu.Submit(dispatches, {}).ok());
    EXPECT_EQ(gpu.counts().submits, 1u);
    EXPECT_EQ(gpu.counts().dispatches, plan.steps.size());
    EXPECT_EQ(gpu.counts().uploads, 0u);
  }
}

TEST(NullGpu, RefusesWhatWebGpuRefuses) {
  NullGpu gpu;
  EXPECT_EQ(gpu.CreateBuffer(GpuBufferUsage::kWeights, (256u << 20) + 1).error().code,
            ErrorCode::kOutOfMemory);
  const GpuBufferId buffer = *gpu.CreateBuffer(GpuBufferUsage::kWeights, 200 << 20);
  const auto bind = [&](std::vector<GpuBufferBinding> bindings) {
    const auto group = gpu.CreateBindGroup(MakePipeline(&gpu, bindings), bindings);
    return group.ok() ? std::string() : group.error().message;
  };
  EXPECT_EQ(bind({{buffer, GpuAccess::kRead, 0, 128 << 20}}), "");
  EXPECT_NE(bind({{buffer, GpuAccess::kRead, 0, (128 << 20) + 4}}), "");  // binding size
  EXPECT_NE(bind({{buffer, GpuAccess::kRead, 128, 256}}), "");            // alignment
  EXPECT_NE(bind({{buffer, GpuAccess::kRead, 199 << 20, 2 << 20}}), "");  // past the end
  EXPECT_EQ(bind({{buffer, GpuAccess::kRead, 0, 256}, {buffer, GpuAccess::kRead, 256, 256}}), "");
  EXPECT_EQ(bind({{buffer, GpuAccess::kRead, 0, 256}, {buffer, GpuAccess::kReadWrite, 256, 256}}),
            "Buffer (0) is bound for reading and for writing.");
  std::vector<GpuBufferBinding> nine;
  for (int i = 0; i < 9; ++i) {
    nine.push_back({*gpu.CreateBuffer(GpuBufferUsage::kState, 4096), GpuAccess::kRead, 0, 256});
  }
  EXPECT_EQ(bind(nine), "Bind group has (9) storage buffers, the limit is (8).");
  const std::vector<GpuBufferBinding> one = {{buffer, GpuAccess::kRead, 0, 256}};
  const GpuPipelineId pipeline = MakePipeline(&gpu, one);
  const GpuBindGroupId group = *gpu.CreateBindGroup(pipeline, one);
  const auto submit = [&](const GpuDispatch& dispatch) {
    return gpu.Submit({&dispatch, 1}, {}).ok();
  };
  EXPECT_TRUE(submit({pipeline, group, 0, {65'535, 1, 1}}));
  EXPECT_FALSE(submit({pipeline, group, 0, {65'536, 1, 1}}));
  EXPECT_FALSE(submit({pipeline - 1, group, 0, {1, 1, 1}})) << "another pipeline's bind group";
  const std::vector<GpuBufferBinding> written = {{buffer, GpuAccess::kReadWrite, 0, 256}};
  EXPECT_FALSE(gpu.CreateBindGroup(pipeline, written).ok()) << "another access";
}

TEST(NullGpu, ReadbacksArriveWithTheirTicket) {
  NullGpu gpu;
  const GpuBufferId buffer = *gpu.CreateBuffer(GpuBufferUsage::kState, 4096);
  uint32_t words[2] = {1, 2};
  const GpuReadback inside = {buffer, 8, 4088, reinterpret_cast<std::byte*>(words)};
  EXPECT_EQ(*gpu.Submit({}, {&inside, 1}), 1u);
  EXPECT_EQ(gpu.last_done(), 1u);
  EXPECT_EQ(words[0] | words[1], 0u);
  const GpuReadback outside = {buffer, 12, 4088, reinterpret_cast<std::byte*>(words)};
  EXPECT_FALSE(gpu.Submit({}, {&outside, 1}).ok());
}

}  // namespace
}  // namespace nonstop
