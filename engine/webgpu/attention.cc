#include "webgpu/attention.h"

#include <algorithm>
#include <bit>

#include "base/bytes.h"

namespace nonstop {
namespace {

using enum KernelBinding;

constexpr uint32_t kMostHeadDim = 512;
constexpr uint32_t kThreads = 256;
// Few enough for 16 KiB of workgroup memory.
constexpr uint32_t kMostTileHeads = 4;
constexpr uint32_t kMostWideTileHeads = 2;  // head_dim > 256
constexpr uint32_t kMostTiles = 8;
// Workgroups that a run should have with long contexts; a GPU runs a few hundred at a time.
constexpr uint32_t kWantedWorkgroups = 256;
constexpr uint32_t kLeastRanges = 2;
constexpr uint32_t kMostRanges = 16;  // each is read by every workgroup of the next product

void AddAttention(const AttentionOp& op, KernelSpec* spec, KernelCall* call) {
  AddStateConstants(op.state, &spec->constants);
  AddCache(op.cache, &spec->constants, &call->params);
  spec->constants.push_back(KernelConstant::Float("SCALE", op.scale));
  spec->constants.push_back(KernelConstant::Uint("HAS_SOFT_CAP", op.soft_cap != 0.0f ? 1 : 0));
  spec->constants.push_back(KernelConstant::Float("SOFT_CAP", op.soft_cap));
  spec->constants.push_back(KernelConstant::Uint("WINDOW", op.window));
  call->out = op.y;
  if (op.rows) {
    AddHeadRows(*op.rows, &spec->constants, &call->params);
    call->in = op.rows->x;
  } else {
    spec->constants.push_back(KernelConstant::Uint("HEADS", op.head_count));
    call->in = op.q;
    call->params[0] = op.q.offset;
  }
  call->params[1] = op.y.offset;
}

uint32_t UnitsPerRow(const AttentionSplit& split, uint32_t kv_head_count) {
  return kv_head_count * split.tile_count;
}

}  // namespace

Status CheckAttention(uint32_t head_dim) {
  if (head_dim % 2 == 0 && head_dim >= 2 && head_dim <= kMostHeadDim) return {};
  return MakeError(ErrorCode::kUnsupportedArchitecture,
                   "Heads of (%u) elements have no kernel on the GPU, only even sizes up to (%u).",
                   head_dim, kMostHeadDim);
}

AttentionSplit SplitAttention(uint32_t head_count, uint32_t kv_head_count, uint32_t head_dim,
                              uint32_t row_limit, bool keeps_groups) {
  const uint32_t group = head_count / kv_head_count;
  const uint32_t fitting = head_dim > 256 ? kMostWideTileHeads : kMostTileHeads;
  const uint32_t wanted = keeps_groups ? group : DivideRoundUp(group, kMostTiles);
  AttentionSplit split;
  split.tile_count = DivideRoundUp(group, std::min(wanted, fitting));
  split.tile_heads = DivideRoundUp(group, split.tile_count);
  const uint32_t units = row_limit * UnitsPerRow(split, kv_head_count);
  split.range_count = std::clamp(std::bit_floor(std::max(kWantedWorkgroups / units, 1u)),
                                 kLeastRanges, kMostRanges);
  return split;
}

bool CanFuseHeadRows(uint32_t head_count, uint32_t kv_head_count, uint32_t head_dim) {
  return head_dim % 8 == 0 &&
         SplitAttention(head_count, kv_head_count, head_dim, 1, true).tile_count == 1;
}

namespace {

AttentionSplit SplitOf(const AttentionOp& op, uint32_t row_limit) {
  return SplitAttention(op.head_count, op.cache.kv_head_count, op.cache.head_dim, row_limit,
                        op.rows.has_value());
}

}  // namespace

AttentionParts PartsOf(const AttentionOp& op, uint32_t row_limit) {
  return {.head_count = op.head_count,
          .head_dim = op.cache.head_dim,
          .window = op.window,
          .range_count = SplitOf(op, row_limit).range_count,
          .row_limit = row_limit};
}

void AddPartsConstants(const AttentionParts& parts, std::vector<KernelConstant>* constants) {
  constants->push_back(KernelConstant::Uint("RANGES", parts.range_count));
  constants->push_back(KernelConstant::Uint("RANGE_STEP", AttentionParts::kRangeStep));
  constants->push_back(KernelConstant::Uint("PART_ROWS", parts.row_limit));
}

KernelCall MakeDecodeAttentionCall(const AttentionOp& op, uint32_t row_limit) {
  const AttentionSplit split = SplitOf(op, row_limit);
  KernelCall call;
  KernelSpec spec{.name = "attention"};
  AddAttention(op, &spec, &call);
  spec.constants.push_back(KernelConstant::Uint("TILE_HEADS", split.tile_heads));
  spec.constants.push_back(KernelConstant::Uint("TILES", split.tile_count));
  AddPartsConstants(PartsOf(op, row_limit), &spec.constants);
  spec.bindings = {kActivationsIn, kActivationsOut, kState, kParams};
  spec.files = {"state", "kv", "kv_read", "attention_range", "attention_score", "attention_parts"};
  if (op.rows) {
    spec.bindings.insert(spec.bindings.end(), {kVectors, kCacheOut4});
    spec.files.insert(spec.files.end(),
                      {"rope", "rope_pairs", "head_rows", "half", "kv_write8", "attention_rope"});
  } else {
    spec.bindings.push_back(kCacheIn4);
    spec.files.push_back("attention_query");
  }
  spec.files.push_back("attention_decode");
  call.workload = {.units_per_row = UnitsPerRow(split, op.cache.kv_head_count) * split.range_count};
  ComposeCall(std::move(spec), &call);
  return call;
}

KernelCall MakeCombineCall(const AttentionParts& parts, ActivationPlace x, ActivationPlace y,
                           const StateShape& state) {
  KernelCall call;
  KernelSpec spec{.name = "attention_combine",
                  .constants = {KernelConstant::Uint("HEADS", parts.head_count),
                                KernelConstant::Uint("HEAD_DIM", parts.head_dim),
                                KernelConstant::Uint("WINDOW", parts.window)},
                  .bindings = {kActivationsIn, kActivationsOut, kState, kParams},
                  .files = {"state", "attention_range", "attention_parts", "attention_combine"}};
  AddStateConstants(state, &spec.constants);
  AddPartsConstants(parts, &spec.constants);
  call.in = x;
  call.out = y;
  call.params[1] = y.offset;
  call.workload = {.units_per_row = parts.head_count * parts.head_dim,
                   .units_per_workgroup = kThreads};
  ComposeCall(std::move(spec), &call);
  return call;
}

KernelCall MakePrefillAttentionCall(const AttentionOp& op, uint32_t prompt_limit) {
  KernelCall call;
  KernelSpec spec{.name = "attention_prefill",
                  .constants = {KernelConstant::Uint("PROMPTS", prompt_limit)},
                  .bindings = {kActivationsIn, kActivationsOut, kCacheIn4, kState, kParams},
                  .files = {"state", "kv", "kv_read", "attention_range", "attention_score",
                            "attention_prefill"}};
  AddAttention(op, &spec, &call);
  const uint32_t tile_queries = 4 * (kThreads / (op.cache.head_dim / 2));
  call.workload = {.fixed_count = op.cache.kv_head_count,
                   .spare_count = prompt_limit - 1,
                   .units_per_row = op.head_count / op.cache.kv_head_count,
                   .units_per_workgroup = tile_queries};
  ComposeCall(std::move(spec), &call);
  return call;
}

}  // namespace nonstop
