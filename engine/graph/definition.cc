#include "graph/definition.h"

#include "base/check.h"
#include "graph/rewrite.h"

namespace nonstop {
namespace {

ValueId Norm(GraphBuilder& build, ValueId x, ValueId w, const OpAttributes& a, uint32_t group = 0) {
  return build.Add(OpKind::kRmsNorm, {x, w}, {.eps = a.eps, .group = group});
}

std::vector<ValueId> DefineRmsNorm(GraphBuilder& build, const Node& node) {
  const uint32_t group = node.attributes.group;
  const ValueId x = node.inputs[0];
  const ValueId square = build.Add(OpKind::kSquare, {x});
  const ValueId mean = build.Add(OpKind::kGroupMean, {square}, {.group = group});
  const ValueId shifted = build.Add(OpKind::kAddScalar, {mean}, {.eps = node.attributes.eps});
  const ValueId inverse = build.Add(OpKind::kRsqrt, {shifted});
  const ValueId scaled = build.Add(OpKind::kMulGroup, {x, inverse}, {.group = group});
  return {build.Add(OpKind::kMulWeight, {scaled, node.inputs[1]}, {.group = group})};
}

std::vector<ValueId> DefineNormMatMul(GraphBuilder& build, const Node& node) {
  const OpAttributes& a = node.attributes;
  const ValueId normed = Norm(build, node.inputs[0], node.inputs[1], a);
  const ValueId y = build.Add(OpKind::kMatMul, {normed, node.inputs[2]});
  if (a.soft_cap == 0.0f) return {y};
  return {build.Add(OpKind::kSoftCap, {y}, {.soft_cap = a.soft_cap})};
}

std::vector<ValueId> DefineMatMulAdd(GraphBuilder& build, const Node& node) {
  const ValueId y = build.Add(OpKind::kMatMul, {node.inputs[0], node.inputs[1]});
  return {build.Add(OpKind::kAdd, {node.inputs[2], y})};
}

std::vector<ValueId> DefineNormAdd(GraphBuilder& build, const Node& node) {
  const ValueId normed = Norm(build, node.inputs[0], node.inputs[1], node.attributes);
  return {build.Add(OpKind::kAdd, {node.inputs[2], normed})};
}

std::vector<ValueId> DefineNormGateUp(GraphBuilder& build, const Node& node) {
  const ValueId normed = Norm(build, node.inputs[0], node.inputs[1], node.attributes);
  const ValueId gate = build.Add(OpKind::kMatMul, {normed, node.inputs[2]});
  const ValueId up = build.Add(OpKind::kMatMul, {normed, node.inputs[3]});
  const auto activation = static_cast<Activation>(node.attributes.activation);
  const ValueId active =
      build.Add(activation == Activation::kGelu ? OpKind::kGelu : OpKind::kSilu, {gate});
  return {build.Add(OpKind::kMul, {active, up})};
}

// x W, plus the bias, normed per head, where the model has them.
ValueId Project(GraphBuilder& build, ValueId x, ValueId w, ValueId bias, ValueId head_norm,
                const OpAttributes& a) {
  ValueId y = build.Add(OpKind::kMatMul, {x, w});
  if (bias != kNoValue) y = build.Add(OpKind::kAddBias, {y, bias});
  if (head_norm != kNoValue) y = Norm(build, y, head_norm, a, a.head_dim);
  return y;
}

std::vector<ValueId> DefineNormQkv(GraphBuilder& build, const Node& node) {
  const OpAttributes& a = node.attributes;
  const std::vector<ValueId>& in = node.inputs;
  const OpAttributes rope = {.rope_magnitude = a.rope_magnitude,
                             .head_dim = a.head_dim,
                             .rotated_dim = a.rotated_dim,
                             .rope_halves = a.rope_halves};
  const ValueId positions = in[10];
  const ValueId frequencies = in[11];
  const ValueId normed = Norm(build, in[0], in[1], a);
  const ValueId q = Project(build, normed, in[2], in[5], in[8], a);
  const ValueId k = Project(build, normed, in[3], in[6], in[9], a);
  const ValueId v = Project(build, normed, in[4], in[7], kNoValue, a);
  const ValueId q_rotated = build.Add(OpKind::kRope, {q, positions, frequencies}, rope);
  const ValueId k_rotated = build.Add(OpKind::kRope, {k, positions, frequencies}, rope);
  const ValueId cache =
      build.Add(OpKind::kKvWrite, {in[12], k_rotated, v, positions},
                {.head_dim = a.head_dim, .kv_head_count = a.kv_head_count, .layer = a.layer});
  return {q_rotated, cache};
}

}  // namespace

std::vector<ValueId> Define(GraphBuilder& build, const Node& node) {
  switch (node.op) {
    case OpKind::kRmsNorm:
      return DefineRmsNorm(build, node);
    case OpKind::kNormMatMul:
      return DefineNormMatMul(build, node);
    case OpKind::kMatMulAdd:
      return DefineMatMulAdd(build, node);
    case OpKind::kNormAdd:
      return DefineNormAdd(build, node);
    case OpKind::kNormGateUp:
      return DefineNormGateUp(build, node);
    case OpKind::kNormQkv:
      return DefineNormQkv(build, node);
    default:
      CHECK(!"a plain op has no definition");
      return {};
  }
}

Graph Expand(const Graph& graph, OpKind op) {
  Graph out;
  out.values = graph.values;
  GraphBuilder build(&out);
  std::vector<ValueId> replaced(graph.values.size());
  for (size_t i = 0; i < replaced.size(); ++i) replaced[i] = static_cast<ValueId>(i);
  for (const Node& original : graph.nodes) {
    Node node = original;
    for (ValueId& id : node.inputs) id = id == kNoValue ? kNoValue : replaced[id];
    if (node.op != op) {
      out.nodes.push_back(std::move(node));
      continue;
    }
    const std::vector<ValueId> defined = Define(build, node);
    for (size_t i = 0; i < defined.size(); ++i) replaced[original.outputs[i]] = defined[i];
  }
  for (ValueId id : graph.outputs) out.outputs.push_back(replaced[id]);
  RemoveDead(&out);
  return out;
}

Graph ExpandFused(const Graph& graph) {
  Graph out = graph;
  for (OpKind op : {OpKind::kNormQkv, OpKind::kNormGateUp, OpKind::kNormAdd, OpKind::kMatMulAdd,
                    OpKind::kNormMatMul}) {
    out = Expand(out, op);
  }
  return out;
}

}  // namespace nonstop
