// FuseNormQkv: from each cache write back to the norm that feeds its layer's Q, K and V.
#include <optional>

#include "graph/passes/passes.h"
#include "graph/rewrite.h"

namespace nonstop {
namespace {

// rope <- [head norm] <- [bias] <- matmul(normed, w), of Q or K; V has neither norm nor rope.
struct Branch {
  ValueId normed = kNoValue;
  ValueId w = kNoValue;
  ValueId bias = kNoValue;
  ValueId head_norm = kNoValue;
  const Node* rope = nullptr;
  const Node* norm = nullptr;
};

std::optional<Branch> MatchProjection(const UseMap& uses, ValueId y, Branch branch) {
  if (const Node* bias = uses.SingleUse(y, OpKind::kAddBias)) {
    branch.bias = bias->inputs[1];
    y = bias->inputs[0];
  }
  const Node* product = uses.SingleUse(y, OpKind::kMatMul);
  if (product == nullptr) return std::nullopt;
  branch.normed = product->inputs[0];
  branch.w = product->inputs[1];
  return branch;
}

std::optional<Branch> MatchRotated(const UseMap& uses, ValueId y) {
  Branch branch;
  branch.rope = uses.SingleUse(y, OpKind::kRope);
  if (branch.rope == nullptr) return std::nullopt;
  y = branch.rope->inputs[0];
  if (const Node* norm = uses.SingleUse(y, OpKind::kRmsNorm)) {
    if (norm->attributes.group != branch.rope->attributes.head_dim) return std::nullopt;
    branch.norm = norm;
    branch.head_norm = norm->inputs[1];
    y = norm->inputs[0];
  }
  return MatchProjection(uses, y, branch);
}

// The one attention that reads the cache version which `write` makes.
const Node* FindAttention(const Graph& graph, ValueId cache) {
  for (const Node& node : graph.nodes) {
    if (node.op == OpKind::kAttention && node.inputs[1] == cache) return &node;
  }
  return nullptr;
}

bool SameRope(const Branch& a, const Branch& b) {
  return a.rope->attributes == b.rope->attributes && a.rope->inputs[1] == b.rope->inputs[1] &&
         a.rope->inputs[2] == b.rope->inputs[2];
}

bool NormsAgree(const Branch& branch, float eps) {
  return branch.norm == nullptr || branch.norm->attributes.eps == eps;
}

std::optional<Node> Match(const Graph& graph, const UseMap& uses, const Node& write) {
  const Node* attention = FindAttention(graph, write.outputs[0]);
  if (attention == nullptr) return std::nullopt;
  const std::optional<Branch> q = MatchRotated(uses, attention->inputs[0]);
  const std::optional<Branch> k = MatchRotated(uses, write.inputs[1]);
  const std::optional<Branch> v = MatchProjection(uses, write.inputs[2], {});
  if (!q || !k || !v || !SameRope(*q, *k)) return std::nullopt;
  if (q->normed != k->normed || q->normed != v->normed) return std::nullopt;
  if (q->rope->inputs[1] != write.inputs[3]) return std::nullopt;
  const Node* norm = uses.Producer(q->normed, OpKind::kRmsNorm);
  if (norm == nullptr || norm->attributes.group != 0 || uses.is_output(q->normed) ||
      uses.use_count(q->normed) != 3) {
    return std::nullopt;
  }
  if (!NormsAgree(*q, norm->attributes.eps) || !NormsAgree(*k, norm->attributes.eps)) {
    return std::nullopt;
  }
  OpAttributes attributes = q->rope->attributes;
  attributes.eps = norm->attributes.eps;
  attributes.head_count = attention->attributes.head_count;
  attributes.kv_head_count = write.attributes.kv_head_count;
  attributes.layer = write.attributes.layer;
  return Node{
      .op = OpKind::kNormQkv,
      .inputs = {norm->inputs[0], norm->inputs[1], q->w, k->w, v->w, q->bias, k->bias, v->bias,
                 q->head_norm, k->head_norm, write.inputs[3], q->rope->inputs[2], write.inputs[0]},
      .outputs = {attention->inputs[0], write.outputs[0]},
      .attributes = attributes};
}

}  // namespace

void FuseNormQkv(Graph* graph) {
  const UseMap uses(*graph);
  std::vector<Node> nodes;
  std::vector<bool> is_replaced(graph->values.size(), false);
  // The fused node takes the place of the write; the Q branch's last node must go.
  std::vector<std::optional<Node>> fused(graph->nodes.size());
  for (size_t i = 0; i < graph->nodes.size(); ++i) {
    if (graph->nodes[i].op != OpKind::kKvWrite) continue;
    fused[i] = Match(*graph, uses, graph->nodes[i]);
    if (fused[i]) is_replaced[fused[i]->outputs[0]] = true;
  }
  for (size_t i = 0; i < graph->nodes.size(); ++i) {
    if (fused[i]) {
      nodes.push_back(std::move(*fused[i]));
    } else if (!is_replaced[graph->nodes[i].outputs[0]]) {
      nodes.push_back(std::move(graph->nodes[i]));
    }
  }
  graph->nodes = std::move(nodes);
  RemoveDead(graph);
}

}  // namespace nonstop
