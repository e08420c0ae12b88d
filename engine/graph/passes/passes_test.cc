// Each fusion on the smallest graph that it fits, and beside it the twins that it must leave alone.
// The fused op's definition, expanded again, must give the graph back.
#include "graph/passes/passes.h"

#include <gtest/gtest.h>

#include "graph/definition.h"
#include "graph/text.h"
#include "graph/verifier.h"

namespace nonstop {
namespace {

Graph Read(std::string_view text) {
  Result<Graph> graph = GraphFromText(text);
  if (!graph.ok()) {
    ADD_FAILURE() << graph.error().message;
    return {};
  }
  return std::move(*graph);
}

std::string RunPass(void (*pass)(Graph*), std::string_view text) {
  Graph graph = Read(text);
  const Status before = Verify(graph);
  EXPECT_TRUE(before.ok()) << before.error().message;
  pass(&graph);
  const Status after = Verify(graph);
  EXPECT_TRUE(after.ok()) << after.error().message;
  return GraphToText(graph);
}

// The text as GraphToText would write it.
std::string Normal(std::string_view text) { return GraphToText(Read(text)); }

std::string Replace(std::string text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

// ---- norm_qkv ----

const std::string kQkv =
    "%0 = embed($ids, @t[50, 64]:Q8_0)\n"
    "%1 = rms_norm(%0, @norm[64]) {eps=1e-05}\n"
    "%2 = matmul(%1, @wq[64, 64]:Q4_0)\n"
    "%3 = matmul(%1, @wk[32, 64]:Q4_0)\n"
    "%4 = matmul(%1, @wv[32, 64]:Q6_K)\n"
    "%5 = rope(%2, $positions, #rope[16]) {head_dim=32, rotated_dim=32}\n"
    "%6 = rope(%3, $positions, #rope[16]) {head_dim=32, rotated_dim=32}\n"
    "%8 = kv_write(%7, %6, %4, $positions) {head_dim=32, kv_head_count=1, layer=3}\n"
    "%9 = attention(%5, %8, $positions) {head_dim=32, head_count=2, kv_head_count=1, layer=3}\n"
    "return %9, %8\n";

TEST(FuseNormQkv, Fuses) {
  EXPECT_EQ(RunPass(FuseNormQkv, kQkv),
            Normal("%0 = embed($ids, @t[50, 64]:Q8_0)\n"
                   "%1, %3 = norm_qkv(%0, @norm[64], @wq[64, 64]:Q4_0, @wk[32, 64]:Q4_0, "
                   "@wv[32, 64]:Q6_K, _, _, _, _, _, $positions, #rope[16], %2) {eps=1e-05, "
                   "head_dim=32, head_count=2, kv_head_count=1, rotated_dim=32, layer=3}\n"
                   "%4 = attention(%1, %3, $positions) {head_dim=32, head_count=2, "
                   "kv_head_count=1, layer=3}\n"
                   "return %4, %3\n"));
}

TEST(FuseNormQkv, TakesBiasesAndHeadNorms) {
  const std::string text =
      "%0 = embed($ids, @t[50, 64]:Q8_0)\n"
      "%1 = rms_norm(%0, @norm[64]) {eps=1e-05}\n"
      "%2 = matmul(%1, @wq[64, 64]:Q4_0)\n"
      "%3 = add_bias(%2, @bq[64])\n"
      "%4 = rms_norm(%3, @qn[32]) {eps=1e-05, group=32}\n"
      "%5 = matmul(%1, @wk[32, 64]:Q4_0)\n"
      "%6 = rms_norm(%5, @kn[32]) {eps=1e-05, group=32}\n"
      "%7 = matmul(%1, @wv[32, 64]:Q6_K)\n"
      "%8 = add_bias(%7, @bv[32])\n"
      "%9 = rope(%4, $positions, #rope[16]) {head_dim=32, rotated_dim=32, rope_halves=1}\n"
      "%10 = rope(%6, $positions, #rope[16]) {head_dim=32, rotated_dim=32, rope_halves=1}\n"
      "%12 = kv_write(%11, %10, %8, $positions) {head_dim=32, kv_head_count=1}\n"
      "%13 = attention(%9, %12, $positions) {head_dim=32, head_count=2, kv_head_count=1}\n"
      "return %13, %12\n";
  const std::string fused = RunPass(FuseNormQkv, text);
  EXPECT_NE(fused.find("@bq[64], _, @bv[32], @qn[32], @kn[32], $positions"), std::string::npos)
      << fused;
  Graph graph = Read(fused);
  EXPECT_EQ(GraphToText(Expand(graph, OpKind::kNormQkv)).size(), Normal(text).size());
}

TEST(FuseNormQkv, DefinitionGivesTheGraphBack) {
  const Graph fused = Read(RunPass(FuseNormQkv, kQkv));
  EXPECT_EQ(GraphToText(Expand(fused, OpKind::kNormQkv)), Normal(kQkv));
}

struct Twin {
  const char* name;
  const char* from;
  const char* to;
};

class QkvTwinTest : public testing::TestWithParam<Twin> {};

TEST_P(QkvTwinTest, IsLeftAlone) {
  const std::string text = Replace(kQkv, GetParam().from, GetParam().to);
  EXPECT_EQ(RunPass(FuseNormQkv, text), Normal(text));
}

INSTANTIATE_TEST_SUITE_P(
    All, QkvTwinTest,
    testing::Values(Twin{"NormedRowHasAnotherReader", "return %9, %8", "return %9, %8, %1"},
                    Twin{"QueryHasAnotherReader", "return %9, %8", "return %9, %8, %5"},
                    Twin{"KeyIsReadUnrotated", "return %9, %8", "return %9, %8, %3"},
                    Twin{"RopesDiffer", "%6 = rope(%3, $positions, #rope[16]) {head_dim=32",
                         "%6 = rope(%3, $positions, #rope[16]) {rope_magnitude=2, head_dim=32"},
                    Twin{"FrequenciesDiffer", "%6 = rope(%3, $positions, #rope[16])",
                         "%6 = rope(%3, $positions, #rope.local[16])"},
                    Twin{"ValueIsOfAnotherRow", "%4 = matmul(%1, @wv", "%4 = matmul(%0, @wv"},
                    Twin{"NormIsByGroups", "%1 = rms_norm(%0, @norm[64]) {eps=1e-05}",
                         "%1 = rms_norm(%0, @norm[32]) {eps=1e-05, group=32}"}),
    [](const auto& info) { return info.param.name; });

// ---- norm_gate_up ----

const std::string kGateUp =
    "%0 = embed($ids, @t[50, 64]:Q8_0)\n"
    "%1 = rms_norm(%0, @norm[64]) {eps=1e-06}\n"
    "%2 = matmul(%1, @gate[96, 64]:Q4_0)\n"
    "%3 = matmul(%1, @up[96, 64]:Q5_0)\n"
    "%4 = silu(%2)\n"
    "%5 = mul(%4, %3)\n"
    "return %5\n";

TEST(FuseNormGateUp, Fuses) {
  const std::string want =
      "%0 = embed($ids, @t[50, 64]:Q8_0)\n"
      "%1 = norm_gate_up(%0, @norm[64], @gate[96, 64]:Q4_0, @up[96, 64]:Q5_0) {eps=1e-06, "
      "activation=1}\n"
      "return %1\n";
  EXPECT_EQ(RunPass(FuseNormGateUp, kGateUp), Normal(want));
  EXPECT_EQ(RunPass(FuseNormGateUp, Replace(kGateUp, "silu", "gelu")),
            Normal(Replace(want, "activation=1", "activation=2")));
}

TEST(FuseNormGateUp, DefinitionGivesTheGraphBack) {
  const Graph fused = Read(RunPass(FuseNormGateUp, kGateUp));
  EXPECT_EQ(GraphToText(Expand(fused, OpKind::kNormGateUp)), Normal(kGateUp));
}

class GateUpTwinTest : public testing::TestWithParam<Twin> {};

TEST_P(GateUpTwinTest, IsLeftAlone) {
  const std::string text = Replace(kGateUp, GetParam().from, GetParam().to);
  EXPECT_EQ(RunPass(FuseNormGateUp, text), Normal(text));
}

INSTANTIATE_TEST_SUITE_P(
    All, GateUpTwinTest,
    testing::Values(Twin{"NormedRowHasAnotherReader", "return %5", "return %5, %1"},
                    Twin{"GateHasAnotherReader", "return %5", "return %5, %2"},
                    Twin{"UpIsOfAnotherRow", "%3 = matmul(%1", "%3 = matmul(%0"},
                    Twin{"ActivationIsOnTheRight", "%5 = mul(%4, %3)", "%5 = mul(%3, %4)"}),
    [](const auto& info) { return info.param.name; });

// ---- residual adds and the head ----

TEST(FuseMatMulAdd, FusesTheRightOperandOnly) {
  const std::string text =
      "%0 = embed($ids, @t[50, 64]:Q8_0)\n"
      "%1 = matmul(%0, @w[64, 64]:Q4_0)\n"
      "%2 = add(%0, %1)\n"
      "return %2\n";
  const std::string fused = RunPass(FuseMatMulAdd, text);
  EXPECT_EQ(fused, Normal("%0 = embed($ids, @t[50, 64]:Q8_0)\n"
                          "%1 = matmul_add(%0, @w[64, 64]:Q4_0, %0)\n"
                          "return %1\n"));
  EXPECT_EQ(GraphToText(Expand(Read(fused), OpKind::kMatMulAdd)), Normal(text));
  const std::string left = Replace(text, "add(%0, %1)", "add(%1, %0)");
  EXPECT_EQ(RunPass(FuseMatMulAdd, left), Normal(left));
  const std::string read_twice = Replace(text, "return %2", "return %2, %1");
  EXPECT_EQ(RunPass(FuseMatMulAdd, read_twice), Normal(read_twice));
}

TEST(FuseNormAdd, FusesAWholeRowNormOnly) {
  const std::string text =
      "%0 = embed($ids, @t[50, 64]:Q8_0)\n"
      "%1 = matmul(%0, @w[64, 64]:Q4_0)\n"
      "%2 = rms_norm(%1, @post[64]) {eps=1e-06}\n"
      "%3 = add(%0, %2)\n"
      "return %3\n";
  const std::string fused = RunPass(FuseNormAdd, text);
  EXPECT_EQ(fused, Normal("%0 = embed($ids, @t[50, 64]:Q8_0)\n"
                          "%1 = matmul(%0, @w[64, 64]:Q4_0)\n"
                          "%2 = norm_add(%1, @post[64], %0) {eps=1e-06}\n"
                          "return %2\n"));
  EXPECT_EQ(GraphToText(Expand(Read(fused), OpKind::kNormAdd)), Normal(text));
  const std::string grouped =
      Replace(text, "rms_norm(%1, @post[64]) {eps=1e-06}", "rms_norm(%1, @post[32]) {group=32}");
  EXPECT_EQ(RunPass(FuseNormAdd, grouped), Normal(grouped));
  const std::string read_twice = Replace(text, "return %3", "return %3, %2");
  EXPECT_EQ(RunPass(FuseNormAdd, read_twice), Normal(read_twice));
}

TEST(FuseNormMatMul, FusesTheHeadWithItsCap) {
  const std::string text =
      "%0 = embed($ids, @t[50, 64]:Q8_0)\n"
      "%1 = rms_norm(%0, @norm[64]) {eps=1e-06}\n"
      "%2 = matmul(%1, @t[50, 64]:Q8_0)\n"
      "%3 = soft_cap(%2) {soft_cap=30}\n"
      "return %3\n";
  const std::string fused = RunPass(FuseNormMatMul, text);
  EXPECT_EQ(fused, Normal("%0 = embed($ids, @t[50, 64]:Q8_0)\n"
                          "%1 = norm_matmul(%0, @norm[64], @t[50, 64]:Q8_0) {eps=1e-06, "
                          "soft_cap=30}\n"
                          "return %1\n"));
  EXPECT_EQ(GraphToText(Expand(Read(fused), OpKind::kNormMatMul)), Normal(text));
  const std::string read_twice = Replace(text, "return %3", "return %3, %1");
  EXPECT_EQ(RunPass(FuseNormMatMul, read_twice), Normal(read_twice));
  // A product whose value is read uncapped keeps its cap apart.
  const std::string uncapped = Replace(text, "return %3", "return %3, %2");
  EXPECT_NE(RunPass(FuseNormMatMul, uncapped).find("= soft_cap("), std::string::npos);
}

TEST(ExpandRmsNorm, GivesSixPlainOps) {
  EXPECT_EQ(RunPass(ExpandRmsNorm,
                    "%0 = embed($ids, @t[50, 64]:Q8_0)\n"
                    "%1 = rms_norm(%0, @norm[32]) {eps=1e-06, group=32}\n"
                    "return %1\n"),
            Normal("%0 = embed($ids, @t[50, 64]:Q8_0)\n"
                   "%1 = square(%0)\n"
                   "%2 = group_mean(%1) {group=32}\n"
                   "%3 = add_scalar(%2) {eps=1e-06}\n"
                   "%4 = rsqrt(%3)\n"
                   "%5 = mul_group(%0, %4) {group=32}\n"
                   "%6 = mul_weight(%5, @norm[32]) {group=32}\n"
                   "return %6\n"));
}

TEST(Passes, LeaveAGraphAloneThatHasNothingToFuse) {
  const std::string text =
      "%0 = embed($ids, @t[50, 64]:Q8_0)\n"
      "%1 = silu(%0)\n"
      "%2 = mul(%1, %0)\n"
      "return %2\n";
  for (const PassInfo& pass : FindPlan("fused")->passes) {
    EXPECT_EQ(RunPass(pass.run, text), Normal(text)) << pass.name;
  }
}

TEST(Plans, AreFoundByName) {
  for (const PlanInfo& plan : GetPlanTable()) EXPECT_EQ(FindPlan(plan.name), &plan);
  EXPECT_EQ(FindPlan("fussed"), nullptr);
}

}  // namespace
}  // namespace nonstop
