// The fusion passes, each a function from a verified graph to a verified graph, and the named plans
// made of them. Every pass has a text-in/text-out test whose twin must not fuse.
#pragma once

#include <span>
#include <string_view>

#include "base/result.h"
#include "graph/graph.h"

namespace nonstop {

// norm -> Q, K, V products -> biases, head norms -> RoPE -> cache write, as one norm_qkv.
// Not when the normed row, or any value between, has another reader.
void FuseNormQkv(Graph* graph);
// norm -> gate and up products -> activation -> product, as one norm_gate_up.
void FuseNormGateUp(Graph* graph);
// residual + matmul(x, w), as one matmul_add. Not when the product has another reader.
void FuseMatMulAdd(Graph* graph);
// residual + rms_norm(x), as one norm_add (models that norm a block's output).
void FuseNormAdd(Graph* graph);
// rms_norm -> matmul [-> soft_cap], as one norm_matmul (the head).
void FuseNormMatMul(Graph* graph);
// rms_norm as its six plain ops: the other direction, for the unfused plans.
void ExpandRmsNorm(Graph* graph);

struct PassInfo {
  const char* name;
  void (*run)(Graph*);
};

struct PlanInfo {
  const char* name;
  const char* description;
  std::span<const PassInfo> passes;
};

// "fused" is the default.
std::span<const PlanInfo> GetPlanTable();
const PlanInfo* FindPlan(std::string_view name);

// Runs the plan's passes in order and verifies after each.
Status RunPasses(const PlanInfo& plan, Graph* graph);

}  // namespace nonstop
