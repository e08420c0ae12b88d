#include "webgpu/rows.h"

#include <algorithm>
#include <cmath>

#include "base/bytes.h"
#include "base/check.h"
#include "base/sort.h"

namespace nonstop {
namespace {

using enum KernelBinding;

constexpr uint32_t kMapThreads = 256;
constexpr uint32_t kHeadThreads = 64;

const char* RunRowsGlue(RowSpace row_space) {
  return row_space == RowSpace::kTokens ? "fn run_rows() -> u32 { return token_count(); }\n"
                                        : "fn run_rows() -> u32 { return output_count(); }\n";
}

struct MapRow {
  OpKind op;
  const char* name;
  uint32_t code;     // rows_map.wgsl
  uint32_t operand;  // likewise
};
enum : uint32_t { kNothing, kSameShape, kVector, kGroupWise };

constexpr MapRow kMapTable[] = {
    {OpKind::kAdd, "add", 0, kSameShape},
    {OpKind::kAddBias, "add_bias", 0, kVector},
    {OpKind::kMul, "mul", 1, kSameShape},
    {OpKind::kMulWeight, "mul_weight", 1, kVector},
    {OpKind::kMulGroup, "mul_group", 1, kGroupWise},
    {OpKind::kScale, "scale", 2, kNothing},
    {OpKind::kSilu, "silu", 3, kNothing},
    {OpKind::kGelu, "gelu", 4, kNothing},
    {OpKind::kSoftCap, "soft_cap", 5, kNothing},
    {OpKind::kSquare, "square", 6, kNothing},
    {OpKind::kAddScalar, "add_scalar", 7, kNothing},
    {OpKind::kRsqrt, "rsqrt", 8, kNothing},
};

const MapRow& FindMapRow(OpKind op) {
  for (const MapRow& row : kMapTable) {
    if (row.op == op) return row;
  }
  CHECK(!"not an elementwise op");
  return kMapTable[0];
}

void AddRotation(const RotationOp& rotation, std::vector<KernelConstant>* constants) {
  constants->push_back(KernelConstant::Uint("ROTATED_DIM", rotation.rotated_dim));
  constants->push_back(KernelConstant::Uint("ROPE_HALVES", rotation.halves ? 1 : 0));
}

}  // namespace

void ComposeCall(KernelSpec spec, KernelCall* call) {
  HeapSort(std::span<KernelBinding>(spec.bindings),
           [](KernelBinding a, KernelBinding b) { return a < b; });
  call->source = ComposeKernel(spec);
  call->bindings = std::move(spec.bindings);
}

void AddCache(const CachePlace& cache, std::vector<KernelConstant>* constants,
              std::array<uint32_t, 16>* params) {
  constants->push_back(KernelConstant::Uint("HEAD_DIM", cache.head_dim));
  constants->push_back(KernelConstant::Uint("KV_HEADS", cache.kv_head_count));
  constants->push_back(KernelConstant::Uint("KV_STRIDE", cache.stride()));
  constants->push_back(KernelConstant::Uint("KV_F32", cache.is_f32 ? 1 : 0));
  (*params)[14] = cache.offset;
  (*params)[15] = cache.page_words;
}

void AddHeadRows(const HeadRows& rows, std::vector<KernelConstant>* constants,
                 std::array<uint32_t, 16>* params) {
  constants->push_back(KernelConstant::Uint("HEADS", rows.head_count));
  constants->push_back(KernelConstant::Uint("HAS_HEAD_NORMS", rows.has_norms ? 1 : 0));
  AddRotation(rows.rotation, constants);
  (*params)[0] = rows.x.offset;
  (*params)[2] = rows.rotation.frequencies;
  (*params)[3] = FloatWord(rows.rotation.magnitude);
  (*params)[4] = FloatWord(rows.eps);
  (*params)[5] = rows.q_norm;
  (*params)[6] = rows.k_norm;
}

std::vector<float> EncodeFrequencies(const std::vector<float>& radians) {
  constexpr double kTurn = 6.28318530717958647692;
  std::vector<float> numbers;
  for (float frequency : radians) {
    const double turns = double{frequency} / kTurn;
    const double scaled = (turns - std::floor(turns)) * 0x1p24;
    const double high = std::floor(scaled);
    // The rest rounds to at most 2^16, which f32 and the kernel's integers hold.
    const double low = std::floor((scaled - high) * 0x1p16 + 0.5);
    numbers.push_back(static_cast<float>(high));
    numbers.push_back(static_cast<float>(low));
  }
  return numbers;
}

KernelCall MakeNormCall(const NormOp& op) {
  KernelCall call;
  const bool has_residual = op.residual.buffer != kNoBuffer;
  KernelSpec spec{.name = has_residual ? "norm_add" : "rms_norm", .files = {"state", "rms_norm"}};
  AddStateConstants(op.state, &spec.constants);
  spec.constants.push_back(KernelConstant::Uint("GROUP", op.group));
  spec.constants.push_back(KernelConstant::Uint("GROUPS", op.group_count));
  spec.constants.push_back(KernelConstant::Uint("HAS_RESIDUAL", has_residual ? 1 : 0));
  OperandReader reader(&call, op.y);
  reader.Read("load_x", op.x, &spec.glue);
  if (has_residual) {
    reader.Read("load_residual", op.residual, &spec.glue);
  } else {
    spec.glue += "fn load_residual(i: u32) -> f32 { return 0.0; }\n";
  }
  spec.glue += RunRowsGlue(op.row_space);
  spec.bindings = reader.bindings();
  spec.bindings.insert(spec.bindings.end(), {kVectors, kState, kParams});
  call.params = {op.x.offset, op.y.offset, op.weight, FloatWord(op.eps), op.residual.offset};
  call.workload = {.row_space = op.row_space, .units_per_row = op.group_count};
  ComposeCall(std::move(spec), &call);
  return call;
}

KernelCall MakeMapCall(const MapOp& op) {
  const MapRow& row = FindMapRow(op.op);
  KernelCall call;
  KernelSpec spec{.name = row.name, .files = {"state", "rows_map"}};
  AddStateConstants(op.state, &spec.constants);
  spec.constants.push_back(KernelConstant::Uint("OP", row.code));
  spec.constants.push_back(KernelConstant::Uint("OPERAND", row.operand));
  spec.constants.push_back(KernelConstant::Uint("WIDTH", op.width));
  spec.constants.push_back(KernelConstant::Uint("GROUP", op.group == 0 ? op.width : op.group));
  OperandReader reader(&call, op.y);
  reader.Read("load_a", op.a, &spec.glue);
  uint32_t operand_offset = op.b.offset;
  if (row.operand == kSameShape || row.operand == kGroupWise) {
    reader.Read("load_b", op.b, &spec.glue);
  } else if (row.operand == kVector) {
    spec.glue += "fn load_b(i: u32) -> f32 { return load_vector(i); }\n";
    operand_offset = op.vector;
  } else {
    spec.glue += "fn load_b(i: u32) -> f32 { return 0.0; }\n";
  }
  spec.glue += RunRowsGlue(op.row_space);
  spec.bindings = reader.bindings();
  if (row.operand == kVector) spec.bindings.push_back(kVectors);
  spec.bindings.insert(spec.bindings.end(), {kState, kParams});
  call.params = {op.a.offset, operand_offset, op.y.offset, FloatWord(op.number)};
  call.workload = {
      .row_space = op.row_space, .units_per_row = op.width, .units_per_workgroup = kMapThreads};
  ComposeCall(std::move(spec), &call);
  return call;
}

KernelCall MakeMeanCall(const MeanOp& op) {
  KernelCall call;
  call.in = op.x;
  call.out = op.y;
  KernelSpec spec{.name = "group_mean",
                  .bindings = {kActivationsIn, kActivationsOut, kState, kParams},
                  .files = {"state", "rows_mean"},
                  .glue = RunRowsGlue(op.row_space)};
  AddStateConstants(op.state, &spec.constants);
  spec.constants.push_back(KernelConstant::Uint("GROUP", op.group));
  spec.constants.push_back(KernelConstant::Uint("GROUPS", op.group_count));
  call.params = {op.x.offset, op.y.offset};
  call.workload = {.row_space = op.row_space, .units_per_row = op.group_count};
  ComposeCall(std::move(spec), &call);
  return call;
}

KernelCall MakeSelectCall(const SelectOp& op) {
  KernelCall call;
  call.in = op.x;
  call.out = op.y;
  KernelSpec spec{.name = "select_rows",
                  .bindings = {kActivationsIn, kActivationsOut, kState, kParams},
                  .files = {"state", "rows_select"}};
  AddStateConstants(op.state, &spec.constants);
  spec.constants.push_back(KernelConstant::Uint("WIDTH", op.width));
  call.params = {op.x.offset, op.y.offset};
  call.workload = {.row_space = RowSpace::kOutputs,
                   .units_per_row = DivideRoundUp(op.width, kMapThreads)};
  ComposeCall(std::move(spec), &call);
  return call;
}

KernelCall MakeRopeCall(const RopeOp& op) {
  KernelCall call;
  KernelSpec spec{.name = "rope", .files = {"state", "rope", "rope_pairs", "rows_rope"}};
  AddStateConstants(op.state, &spec.constants);
  AddRotation(op.rotation, &spec.constants);
  spec.constants.push_back(KernelConstant::Uint("HEADS", op.head_count));
  spec.constants.push_back(KernelConstant::Uint("HEAD_DIM", op.head_dim));
  OperandReader reader(&call, op.y);
  reader.Read("load_x", op.x, &spec.glue);
  spec.bindings = reader.bindings();
  spec.bindings.insert(spec.bindings.end(), {kVectors, kState, kParams});
  call.params = {op.x.offset, op.y.offset, op.rotation.frequencies,
                 FloatWord(op.rotation.magnitude)};
  call.workload = {.units_per_row = DivideRoundUp(op.head_count * op.head_dim / 2, kHeadThreads)};
  ComposeCall(std::move(spec), &call);
  return call;
}

KernelCall MakeKvWriteCall(const KvWriteOp& op) {
  KernelCall call;
  KernelSpec spec{.name = "kv_write",
                  .files = {"state", "half", "kv", "kv_write", "rows_kv_write"}};
  AddStateConstants(op.state, &spec.constants);
  AddCache(op.cache, &spec.constants, &call.params);
  OperandReader reader(&call, {});
  reader.Read("load_k", op.k, &spec.glue);
  reader.Read("load_v", op.v, &spec.glue);
  spec.bindings = reader.bindings();
  spec.bindings.insert(spec.bindings.end(), {kCacheOut, kState, kParams});
  call.params[0] = op.k.offset;
  call.params[1] = op.v.offset;
  call.workload = {.units_per_row =
                       DivideRoundUp(op.cache.kv_head_count * op.cache.head_dim, kHeadThreads)};
  ComposeCall(std::move(spec), &call);
  return call;
}

KernelCall MakeRopeKvCall(const RopeKvOp& op) {
  KernelCall call;
  call.in = op.rows.x;
  call.out = op.q;
  KernelSpec spec{
      .name = "rope_kv",
      .bindings = {kActivationsIn, kActivationsOut, kVectors, kCacheOut, kState, kParams},
      .files = {"state", "rope", "rope_pairs", "head_rows", "half", "kv", "kv_write", "rope_kv"}};
  AddStateConstants(op.state, &spec.constants);
  AddCache(op.cache, &spec.constants, &call.params);
  AddHeadRows(op.rows, &spec.constants, &call.params);
  call.params[1] = op.q.offset;
  call.workload = {.units_per_row = op.rows.head_count + 2 * op.cache.kv_head_count};
  ComposeCall(std::move(spec), &call);
  return call;
}

}  // namespace nonstop
