// The text form and the verifier: what is written is read back, what is wrong is named.
#include "graph/text.h"

#include <gtest/gtest.h>

#include "graph/verifier.h"

namespace nonstop {
namespace {

constexpr const char* kLayer =
    "%0 = embed($ids, @token_embd.weight[100, 64]:Q8_0) {scale=8} -> f32[tokens, 64]\n"
    "%1 = rms_norm(%0, @blk.0.attn_norm.weight[64]) {eps=9.99999975e-06} -> f32[tokens, 64]\n"
    "%2 = matmul(%1, @blk.0.attn_qkv.weight[64:96, 64]:Q4_K) -> f32[tokens, 32]\n"
    "%3 = rope(%2, $positions, #rope[16]) {head_dim=32, rotated_dim=32, rope_halves=1} -> "
    "f32[tokens, 32]\n"
    "%5 = kv_write(%4, %3, %2, $positions) {head_dim=32, kv_head_count=1}\n"
    "%6 = select_rows(%3, $output_rows) -> f32[outputs, 32]\n"
    "return %6, %5\n";

std::string RoundTrip(std::string_view text) {
  Result<Graph> graph = GraphFromText(text);
  if (!graph.ok()) return graph.error().message;
  return GraphToText(*graph);
}

TEST(GraphText, ReadsWhatItWrites) { EXPECT_EQ(RoundTrip(kLayer), kLayer); }

TEST(GraphText, NumbersValuesInOrderOfAppearance) {
  EXPECT_EQ(RoundTrip("%7 = embed($ids, @t[4, 8]:F32) -> f32[tokens, 8]\nreturn %7\n"),
            "%0 = embed($ids, @t[4, 8]:F32) -> f32[tokens, 8]\nreturn %0\n");
}

struct Wrong {
  const char* text;
  const char* message;
};

class WrongTextTest : public testing::TestWithParam<Wrong> {};

TEST_P(WrongTextTest, NamesLineAndReason) {
  EXPECT_EQ(RoundTrip(GetParam().text), GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    All, WrongTextTest,
    testing::Values(
        Wrong{"%0 = frobnicate($ids)\n", "Line (1): Text (%0 = frobnicate($ids)) names no op."},
        Wrong{"%0 = embed($ids\n", "Line (1): Text (%0 = embed($ids) is no graph node."},
        Wrong{"%0 = embed($ids)\n", "Line (1): Op (embed) has (1) operands, not (2)."},
        Wrong{"%0 = embed($ids, @t[4, 8]:F32)\n%1 = matmul(%0, @w[3, 9]:F32)\nreturn %1\n",
              "Line (2): Operand (w) of op (matmul) has width (9), not (8)."},
        Wrong{"%0 = embed($ids, @t[8])\n", "Line (1): Operand (table) of op (embed) is no matrix."},
        Wrong{"%0 = silu(%1)\n", "Line (1): Operand (x) of op (silu) is missing."},
        Wrong{"%0 = embed($ids, @t[4, 8]:Q9_9)\n",
              "Line (1): Text (%0 = embed($ids, @t[4, 8]:Q9_9)) is no graph node."}));

// A small graph that verifies, to be damaged.
Graph GoodGraph() {
  Result<Graph> graph = GraphFromText(kLayer);
  CHECK(graph.ok());
  return std::move(*graph);
}

TEST(Verifier, AcceptsAGoodGraph) {
  const Status status = Verify(GoodGraph());
  EXPECT_TRUE(status.ok()) << status.error().message;
}

TEST(Verifier, RefusesAReadBeforeTheDefinition) {
  Graph graph = GoodGraph();
  std::swap(graph.nodes[1], graph.nodes[2]);
  EXPECT_EQ(Verify(graph).error().message.substr(0, 23), "Op (matmul) reads value");
}

TEST(Verifier, RefusesWorkInVain) {
  Graph graph = GoodGraph();
  graph.outputs.erase(graph.outputs.begin());
  EXPECT_NE(Verify(graph).error().message.find("is computed in vain"), std::string::npos);
}

TEST(Verifier, RefusesASecondDefinition) {
  Graph graph = GoodGraph();
  graph.nodes[2].outputs = graph.nodes[1].outputs;
  EXPECT_FALSE(Verify(graph).ok());
}

TEST(Verifier, RefusesAnAttributeThatTheOpDoesNotUse) {
  Graph graph = GoodGraph();
  graph.nodes[2].attributes.window = 3;
  EXPECT_EQ(Verify(graph).error().message, "Op (matmul) does not use attribute (window).");
}

TEST(Verifier, RefusesAnOldVersionOfTheCache) {
  const Result<Graph> graph = GraphFromText(
      "%0 = embed($ids, @t[4, 8]:F32)\n"
      "%2 = kv_write(%1, %0, %0, $positions) {head_dim=8, kv_head_count=1}\n"
      "%3 = attention(%0, %1, $positions) {head_dim=8, head_count=1, kv_head_count=1}\n"
      "return %3, %2\n");
  ASSERT_TRUE(graph.ok()) << graph.error().message;
  EXPECT_NE(Verify(*graph).error().message.find("reads an old version"), std::string::npos);
}

TEST(Verifier, RefusesOtherRowSpaces) {
  const Result<Graph> graph = GraphFromText(
      "%0 = embed($ids, @t[4, 8]:F32)\n"
      "%1 = select_rows(%0, $output_rows)\n"
      "%2 = add(%0, %1)\n"
      "return %2\n");
  EXPECT_EQ(graph.error().message, "Line (3): Operand (b) of op (add) has other rows.");
}

}  // namespace
}  // namespace nonstop
