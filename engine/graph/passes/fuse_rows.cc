// The fusions that end in one row-wise value: gate and up, residual adds, the head.
// Each replaces the last node of its pattern in place; RemoveDead takes the rest.
#include <optional>

#include "graph/passes/passes.h"
#include "graph/rewrite.h"

namespace nonstop {
namespace {

template <class Match>
void ReplaceNodes(Graph* graph, Match&& match) {
  const UseMap uses(*graph);
  std::vector<std::optional<Node>> fused;
  fused.reserve(graph->nodes.size());
  for (const Node& node : graph->nodes) fused.push_back(match(uses, node));
  for (size_t i = 0; i < fused.size(); ++i) {
    if (!fused[i]) continue;
    fused[i]->outputs = graph->nodes[i].outputs;
    graph->nodes[i] = std::move(*fused[i]);
  }
  RemoveDead(graph);
}

Node MakeNode(OpKind op, std::vector<ValueId> inputs, const OpAttributes& attributes) {
  return {.op = op, .inputs = std::move(inputs), .outputs = {}, .attributes = attributes};
}

// The whole-row norm behind `id`, if exactly `use_count` operands read it.
const Node* RowNorm(const UseMap& uses, ValueId id, uint32_t use_count) {
  const Node* norm = uses.Producer(id, OpKind::kRmsNorm);
  if (norm == nullptr || norm->attributes.group != 0) return nullptr;
  return uses.use_count(id) == use_count && !uses.is_output(id) ? norm : nullptr;
}

std::optional<Node> MatchNormGateUp(const UseMap& uses, const Node& node) {
  if (node.op != OpKind::kMul) return std::nullopt;
  const Node* silu = uses.SingleUse(node.inputs[0], OpKind::kSilu);
  const Node* gelu = uses.SingleUse(node.inputs[0], OpKind::kGelu);
  const Node* active = silu != nullptr ? silu : gelu;
  const Node* up = uses.SingleUse(node.inputs[1], OpKind::kMatMul);
  if (active == nullptr || up == nullptr) return std::nullopt;
  const Node* gate = uses.SingleUse(active->inputs[0], OpKind::kMatMul);
  if (gate == nullptr || gate->inputs[0] != up->inputs[0]) return std::nullopt;
  const Node* norm = RowNorm(uses, gate->inputs[0], 2);
  if (norm == nullptr) return std::nullopt;
  const Activation activation = silu != nullptr ? Activation::kSilu : Activation::kGelu;
  return MakeNode(OpKind::kNormGateUp,
                  {norm->inputs[0], norm->inputs[1], gate->inputs[1], up->inputs[1]},
                  {.eps = norm->attributes.eps, .activation = static_cast<uint32_t>(activation)});
}

std::optional<Node> MatchMatMulAdd(const UseMap& uses, const Node& node) {
  if (node.op != OpKind::kAdd) return std::nullopt;
  const Node* product = uses.SingleUse(node.inputs[1], OpKind::kMatMul);
  if (product == nullptr) return std::nullopt;
  return MakeNode(OpKind::kMatMulAdd, {product->inputs[0], product->inputs[1], node.inputs[0]}, {});
}

std::optional<Node> MatchNormAdd(const UseMap& uses, const Node& node) {
  if (node.op != OpKind::kAdd) return std::nullopt;
  const Node* norm = RowNorm(uses, node.inputs[1], 1);
  if (norm == nullptr) return std::nullopt;
  return MakeNode(OpKind::kNormAdd, {norm->inputs[0], norm->inputs[1], node.inputs[0]},
                  {.eps = norm->attributes.eps});
}

std::optional<Node> MatchNormMatMul(const UseMap& uses, const Node& node) {
  if (node.op != OpKind::kMatMul) return std::nullopt;
  const Node* norm = RowNorm(uses, node.inputs[0], 1);
  if (norm == nullptr) return std::nullopt;
  return MakeNode(OpKind::kNormMatMul, {norm->inputs[0], norm->inputs[1], node.inputs[1]},
                  {.eps = norm->attributes.eps});
}

std::optional<Node> MatchCappedHead(const UseMap& uses, const Node& node) {
  if (node.op != OpKind::kSoftCap) return std::nullopt;
  const Node* head = uses.SingleUse(node.inputs[0], OpKind::kNormMatMul);
  if (head == nullptr || head->attributes.soft_cap != 0.0f) return std::nullopt;
  OpAttributes attributes = head->attributes;
  attributes.soft_cap = node.attributes.soft_cap;
  return MakeNode(OpKind::kNormMatMul, head->inputs, attributes);
}

}  // namespace

void FuseNormGateUp(Graph* graph) { ReplaceNodes(graph, MatchNormGateUp); }
void FuseMatMulAdd(Graph* graph) { ReplaceNodes(graph, MatchMatMulAdd); }
void FuseNormAdd(Graph* graph) { ReplaceNodes(graph, MatchNormAdd); }
void FuseNormMatMul(Graph* graph) {
  ReplaceNodes(graph, MatchNormMatMul);
  ReplaceNodes(graph, MatchCappedHead);
}

}  // namespace nonstop
