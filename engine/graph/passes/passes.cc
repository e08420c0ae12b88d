#include "graph/passes/passes.h"

#include "graph/definition.h"
#include "graph/verifier.h"

namespace nonstop {
namespace {

constexpr PassInfo kQkv = {"fuse_norm_qkv", FuseNormQkv};
constexpr PassInfo kGateUp = {"fuse_norm_gate_up", FuseNormGateUp};
constexpr PassInfo kMatMulAdd = {"fuse_matmul_add", FuseMatMulAdd};
constexpr PassInfo kNormAdd = {"fuse_norm_add", FuseNormAdd};
constexpr PassInfo kNormMatMul = {"fuse_norm_matmul", FuseNormMatMul};
constexpr PassInfo kExpandNorm = {"expand_rms_norm", ExpandRmsNorm};

constexpr PassInfo kFusedPasses[] = {kQkv, kGateUp, kMatMulAdd, kNormAdd, kNormMatMul};
constexpr PassInfo kUnfusedPasses[] = {kExpandNorm};
constexpr PassInfo kOnlyQkv[] = {kQkv, kExpandNorm};
constexpr PassInfo kOnlyGateUp[] = {kGateUp, kExpandNorm};
constexpr PassInfo kOnlyMatMulAdd[] = {kMatMulAdd, kExpandNorm};
constexpr PassInfo kOnlyNormAdd[] = {kNormAdd, kExpandNorm};
constexpr PassInfo kOnlyNormMatMul[] = {kNormMatMul, kExpandNorm};

constexpr PlanInfo kPlanTable[] = {
    {"fused", "every fusion: about five steps a layer", kFusedPasses},
    {"unfused", "plain ops only, RMSNorm as six", kUnfusedPasses},
    {"rms-norm", "plain ops, RMSNorm whole", {}},
    {"only-qkv", "unfused but for norm, Q, K, V, RoPE and cache write", kOnlyQkv},
    {"only-gate-up", "unfused but for norm, gate, up and activation", kOnlyGateUp},
    {"only-residual", "unfused but for product and residual", kOnlyMatMulAdd},
    {"only-norm-add", "unfused but for norm and residual", kOnlyNormAdd},
    {"only-norm-matmul", "unfused but for norm and a single product", kOnlyNormMatMul},
};

}  // namespace

void ExpandRmsNorm(Graph* graph) { *graph = Expand(*graph, OpKind::kRmsNorm); }

std::span<const PlanInfo> GetPlanTable() { return kPlanTable; }

const PlanInfo* FindPlan(std::string_view name) {
  for (const PlanInfo& plan : kPlanTable) {
    if (name == plan.name) return &plan;
  }
  return nullptr;
}

Status RunPasses(const PlanInfo& plan, Graph* graph) {
  TRY(Verify(*graph));
  for (const PassInfo& pass : plan.passes) {
    pass.run(graph);
    Status status = Verify(*graph);
    if (!status.ok()) return std::move(status).error().With(pass.name);
  }
  return {};
}

}  // namespace nonstop
