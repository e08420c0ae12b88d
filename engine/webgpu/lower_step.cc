#include "webgpu/lower_step.h"

#include <algorithm>

#include "base/check.h"

namespace nonstop {

// A step's bindings by slot: inputs, then outputs.
struct StepLowering::Operands {
  const Step& step;
  const OpAttributes& params;
  std::span<const Binding> bindings;

  const Binding& in(size_t slot) const { return bindings[slot]; }
  const Binding& out(size_t index = 0) const {
    return bindings[GetOpInfo(step.op).inputs.size() + index];
  }
};

StepLowering::StepLowering(const GpuModel& model, const Plan& plan, const GpuArenas& arenas,
                           Phase phase, uint32_t row_limit)
    : model_(model), plan_(plan), arenas_(arenas), phase_(phase), row_limit_(row_limit) {}

Result<std::vector<KernelCall>> StepLowering::Lower(const Step& step) {
  calls_.clear();
  TRY(Dispatch({step, plan_.params[step.params_index], plan_.BindingsOf(step)}));
  return std::move(calls_);
}

Status StepLowering::Dispatch(const Operands& in) {
  switch (in.step.op) {
    case OpKind::kEmbed:
      return Embed(in);
    case OpKind::kMatMul:
    case OpKind::kMatMulAdd:
    case OpKind::kNormMatMul:
      return Product(in);
    case OpKind::kNormGateUp:
      return GateUp(in);
    case OpKind::kNormQkv:
      return Qkv(in);
    case OpKind::kAttention:
      return Attention(in);
    case OpKind::kRope:
    case OpKind::kKvWrite:
    case OpKind::kSelectRows:
    case OpKind::kGroupMean:
    case OpKind::kRmsNorm:
    case OpKind::kNormAdd:
      return Rows(in);
    default:
      return Map(in);
  }
}

uint32_t StepLowering::LimitOf(RowSpace row_space) const {
  const bool is_decode = phase_ == Phase::kDecode;
  return row_space == RowSpace::kTokens || is_decode ? row_limit_ : plan_.limits.output_rows;
}

ActivationPlace StepLowering::PlaceOf(const Binding& binding) const {
  return {arenas_.arena(binding.arena),
          static_cast<uint32_t>(binding.offset_bytes / sizeof(float))};
}

Result<GpuMatrix> StepLowering::MatrixOf(const Binding& binding) const {
  const Value& weight = value(binding);
  const GpuMatrix* matrix = model_.weights->FindMatrix(weight.name);
  if (matrix == nullptr) {
    return MakeError(ErrorCode::kMissingTensor, "Tensor \"%s\" was not loaded.",
                     weight.name.c_str());
  }
  if (weight.row_count == matrix->row_count) return GpuMatrix(*matrix);
  if (weight.row_begin % 8 != 0) {
    return MakeError(ErrorCode::kWrongShape,
                     "Rows from (%u) of tensor \"%s\" do not begin at a multiple of 8.",
                     weight.row_begin, weight.name.c_str());
  }
  return SliceRows(*matrix, weight.row_begin, weight.row_count);
}

Result<uint32_t> StepLowering::VectorOf(ValueId id) const {
  const std::string& name = plan_.graph.value(id).name;
  const std::optional<uint32_t> offset = model_.weights->FindVectorOffset(name);
  if (offset) return *offset;
  return MakeError(ErrorCode::kMissingTensor, "Vector \"%s\" was not loaded.", name.c_str());
}

Result<RotationOp> StepLowering::RotationOf(const Binding& frequencies,
                                            const OpAttributes& params) const {
  ASSIGN_OR_RETURN(const uint32_t offset, VectorOf(frequencies.value));
  return RotationOp{.rotated_dim = params.rotated_dim,
                    .halves = params.rope_halves != 0,
                    .frequencies = offset,
                    .magnitude = params.rope_magnitude};
}

Status StepLowering::Embed(const Operands& in) {
  ASSIGN_OR_RETURN(const GpuMatrix table, MatrixOf(in.in(1)));
  ASSIGN_OR_RETURN(std::vector<EmbedDispatch> dispatches,
                   LowerEmbed({.table = &table,
                               .scale = in.params.scale,
                               .state = model_.layout.shape,
                               .y_offset = PlaceOf(in.out()).offset}));
  for (EmbedDispatch& dispatch : dispatches) {
    KernelCall call;
    call.source = MakeEmbedKernel(dispatch.shape);
    call.bindings = EmbedBindings(dispatch.shape);
    call.out = PlaceOf(in.out());
    call.windows = dispatch.windows;
    call.params = dispatch.params;
    call.embed = std::move(dispatch);
    calls_.push_back(std::move(call));
  }
  return {};
}

Status StepLowering::AddProduct(ProductOp op, ActivationPlace x, ActivationPlace residual,
                                ActivationPlace y) {
  op.state = model_.layout.shape;
  op.uses_subgroups = model_.uses_subgroups;
  op.workgroup_bytes = model_.workgroup_bytes;
  op.row_limit = LimitOf(op.row_space);
  op.x_offset = x.offset;
  op.y_offset = y.offset;
  const bool is_in_place = residual.buffer == y.buffer;
  if (residual.buffer != kNoBuffer && !is_in_place) op.residual_offset = residual.offset;
  ASSIGN_OR_RETURN(std::vector<ProductDispatch> dispatches, LowerProduct(op));
  for (ProductDispatch& dispatch : dispatches) {
    KernelCall call;
    call.source = MakeProductKernel(dispatch.shape);
    call.bindings = ProductBindings(dispatch.shape);
    call.in = x;
    call.in2 = residual;
    call.out = y;
    call.windows = dispatch.windows;
    call.params = dispatch.params;
    call.product = std::move(dispatch);
    calls_.push_back(std::move(call));
  }
  return {};
}

Result<ActivationPlace> StepLowering::Norm(ActivationPlace x, ValueId norm, float eps,
                                           RowSpace row_space, ProductOp* op) {
  ASSIGN_OR_RETURN(const uint32_t weight, VectorOf(norm));
  if (LimitOf(row_space) <= kMatvecRowLimit) {
    op->norm_offset = weight;
    op->eps = eps;
    return x;
  }
  const ActivationPlace normed = {arenas_.normed_rows(), 0};
  calls_.push_back(MakeNormCall({.x = x,
                                 .y = normed,
                                 .residual = {},
                                 .group = plan_.graph.value(norm).width,
                                 .weight = weight,
                                 .eps = eps,
                                 .row_space = row_space,
                                 .state = model_.layout.shape}));
  return normed;
}

// matmul(x, w), matmul_add(x, w, residual), norm_matmul(x, norm, w).
Status StepLowering::Product(const Operands& in) {
  const bool has_norm = in.step.op == OpKind::kNormMatMul;
  ASSIGN_OR_RETURN(const GpuMatrix matrix, MatrixOf(in.in(has_norm ? 2 : 1)));
  ProductOp op;
  op.matrices = {&matrix, 1};
  op.row_space = value(in.out()).rows;
  op.y_width = value(in.out()).width;
  ActivationPlace x = PlaceOf(in.in(0));
  ActivationPlace residual;
  if (parts_for_product_) {
    op.x_parts = parts_for_product_;
    x = {arenas_.parts(), 0};
    parts_for_product_.reset();
  }
  if (has_norm) {
    op.soft_cap = in.params.soft_cap;
    ASSIGN_OR_RETURN(x, Norm(x, in.in(1).value, in.params.eps, op.row_space, &op));
  } else if (in.step.op == OpKind::kMatMulAdd) {
    op.kind = ProductKind::kAdd;
    residual = PlaceOf(in.in(2));
  }
  return AddProduct(op, x, residual, PlaceOf(in.out()));
}

Status StepLowering::GateUp(const Operands& in) {
  ASSIGN_OR_RETURN(GpuMatrix gate, MatrixOf(in.in(2)));
  ASSIGN_OR_RETURN(GpuMatrix up, MatrixOf(in.in(3)));
  const GpuMatrix matrices[] = {std::move(gate), std::move(up)};
  ProductOp op;
  op.kind = ProductKind::kGateUp;
  op.matrices = matrices;
  op.row_space = value(in.out()).rows;
  op.y_width = value(in.out()).width;
  op.activation = static_cast<Activation>(in.params.activation);
  ASSIGN_OR_RETURN(const ActivationPlace x,
                   Norm(PlaceOf(in.in(0)), in.in(1).value, in.params.eps, op.row_space, &op));
  return AddProduct(op, x, {}, PlaceOf(in.out()));
}

bool StepLowering::IsReadOnlyBy(ValueId id, std::initializer_list<OpKind> ops) const {
  uint32_t reader_count = 0;
  bool is_one_of_them = false;
  for (const Step& step : plan_.steps) {
    const auto bindings = plan_.BindingsOf(step);
    for (size_t slot = 0; slot < GetOpInfo(step.op).inputs.size(); ++slot) {
      if (bindings[slot].value != id) continue;
      ++reader_count;
      is_one_of_them = slot == 0 && std::find(ops.begin(), ops.end(), step.op) != ops.end();
    }
  }
  return reader_count == 1 && is_one_of_them;
}

// One dispatch where the product may rotate and write the cache itself. Head norms need whole heads
// first: then attention does the rest, or, for a prompt, a dispatch of its own.
Status StepLowering::Qkv(const Operands& in) {
  const OpAttributes& params = in.params;
  ASSIGN_OR_RETURN(GpuMatrix wq, MatrixOf(in.in(2)));
  ASSIGN_OR_RETURN(GpuMatrix wk, MatrixOf(in.in(3)));
  ASSIGN_OR_RETURN(GpuMatrix wv, MatrixOf(in.in(4)));
  const GpuMatrix matrices[] = {std::move(wq), std::move(wk), std::move(wv)};
  ASSIGN_OR_RETURN(const RotationOp rotation, RotationOf(in.in(11), params));
  const CachePlace cache = model_.cache->PlaceOf(params.layer);
  ProductOp op;
  op.kind = ProductKind::kQkvRows;
  op.matrices = matrices;
  op.y_width = (params.head_count + 2 * params.kv_head_count) * params.head_dim;
  for (size_t i = 0; i < 3; ++i) {
    const ValueId bias = in.in(5 + i).value;
    if (bias == kNoValue) continue;
    ASSIGN_OR_RETURN(op.bias_offsets[i], VectorOf(bias));
  }
  ASSIGN_OR_RETURN(const ActivationPlace x,
                   Norm(PlaceOf(in.in(0)), in.in(1).value, params.eps, RowSpace::kTokens, &op));
  HeadRows rows = {.x = {arenas_.qkv_rows(), 0},
                   .head_count = params.head_count,
                   .rotation = rotation,
                   .has_norms = in.in(8).value != kNoValue,
                   .eps = params.eps};
  if (rows.has_norms) {
    ASSIGN_OR_RETURN(rows.q_norm, VectorOf(in.in(8).value));
    ASSIGN_OR_RETURN(rows.k_norm, VectorOf(in.in(9).value));
  }
  if (row_limit_ <= kMatvecRowLimit && !rows.has_norms && params.head_dim % 8 == 0 &&
      CanFuseRope(params.head_dim, params.rotated_dim)) {
    op.kind = ProductKind::kQkv;
    op.y_width = params.head_count * params.head_dim;
    op.head_dim = params.head_dim;
    op.rotated_dim = params.rotated_dim;
    op.rope_halves = rotation.halves;
    op.rope_magnitude = rotation.magnitude;
    op.frequencies_offset = rotation.frequencies;
    op.kv_is_f32 = cache.is_f32;
    op.cache_offset = cache.offset;
    op.page_words = cache.page_words;
    TRY(AddProduct(op, x, {}, PlaceOf(in.out())));
    calls_.back().layer = params.layer;
    return {};
  }
  TRY(AddProduct(op, x, {}, rows.x));
  if (phase_ == Phase::kDecode && IsReadOnlyBy(in.out().value, {OpKind::kAttention}) &&
      CanFuseHeadRows(params.head_count, params.kv_head_count, params.head_dim)) {
    rows_for_attention_ = rows;
    return {};
  }
  calls_.push_back(MakeRopeKvCall(
      {.rows = rows, .q = PlaceOf(in.out()), .cache = cache, .state = model_.layout.shape}));
  calls_.back().layer = params.layer;
  return {};
}

Status StepLowering::Attention(const Operands& in) {
  const OpAttributes& params = in.params;
  TRY(CheckAttention(params.head_dim));
  AttentionOp op = {.q = PlaceOf(in.in(0)),
                    .y = PlaceOf(in.out()),
                    .head_count = params.head_count,
                    .cache = model_.cache->PlaceOf(params.layer),
                    .scale = params.scale,
                    .soft_cap = params.soft_cap,
                    .window = params.window,
                    .state = model_.layout.shape,
                    .rows = rows_for_attention_};
  rows_for_attention_.reset();
  if (phase_ == Phase::kDecode) {
    DecodeAttention(in, op);
  } else {
    calls_.push_back(MakePrefillAttentionCall(op, plan_.limits.output_rows));
    calls_.back().layer = params.layer;
  }
  return {};
}

// The product that reads the result puts its parts together, or else a dispatch of its own.
void StepLowering::DecodeAttention(const Operands& in, AttentionOp op) {
  const AttentionParts parts = PartsOf(op, row_limit_);
  const ActivationPlace y = op.y;
  op.y = {arenas_.parts(), 0};
  calls_.push_back(MakeDecodeAttentionCall(op, row_limit_));
  calls_.back().layer = in.params.layer;
  if (CanReadParts(parts) && IsReadOnlyBy(in.out().value, {OpKind::kMatMul, OpKind::kMatMulAdd})) {
    parts_for_product_ = parts;
  } else {
    calls_.push_back(MakeCombineCall(parts, op.y, y, op.state));
  }
}

Status StepLowering::Rows(const Operands& in) {
  const OpAttributes& params = in.params;
  const StateShape& state = model_.layout.shape;
  const ActivationPlace x = PlaceOf(in.in(in.step.op == OpKind::kKvWrite ? 1 : 0));
  const ActivationPlace y = PlaceOf(in.out());
  const uint32_t width = value(in.in(0)).width;
  const uint32_t group = params.group == 0 ? width : params.group;
  switch (in.step.op) {
    case OpKind::kRope: {
      ASSIGN_OR_RETURN(const RotationOp rotation, RotationOf(in.in(2), params));
      calls_.push_back(MakeRopeCall({.x = x,
                                     .y = y,
                                     .head_count = width / params.head_dim,
                                     .head_dim = params.head_dim,
                                     .rotation = rotation,
                                     .state = state}));
      return {};
    }
    case OpKind::kKvWrite:
      calls_.push_back(MakeKvWriteCall({.k = x,
                                        .v = PlaceOf(in.in(2)),
                                        .cache = model_.cache->PlaceOf(params.layer),
                                        .state = state}));
      calls_.back().layer = params.layer;
      return {};
    case OpKind::kSelectRows:
      calls_.push_back(MakeSelectCall({.x = x, .y = y, .width = width, .state = state}));
      return {};
    case OpKind::kGroupMean:
      calls_.push_back(MakeMeanCall({.x = x,
                                     .y = y,
                                     .group_count = width / group,
                                     .group = group,
                                     .row_space = value(in.out()).rows,
                                     .state = state}));
      return {};
    default: {
      ASSIGN_OR_RETURN(const uint32_t weight, VectorOf(in.in(1).value));
      const bool has_residual = in.step.op == OpKind::kNormAdd;
      calls_.push_back(
          MakeNormCall({.x = x,
                        .y = y,
                        .residual = has_residual ? PlaceOf(in.in(2)) : ActivationPlace{},
                        .group_count = width / group,
                        .group = group,
                        .weight = weight,
                        .eps = params.eps,
                        .row_space = value(in.out()).rows,
                        .state = state}));
      return {};
    }
  }
}

Status StepLowering::Map(const Operands& in) {
  const OpAttributes& params = in.params;
  MapOp op = {.op = in.step.op,
              .a = PlaceOf(in.in(0)),
              .b = {},
              .y = PlaceOf(in.out()),
              .width = value(in.out()).width,
              .group = params.group,
              .row_space = value(in.out()).rows,
              .state = model_.layout.shape};
  if (in.step.op == OpKind::kScale) op.number = params.scale;
  if (in.step.op == OpKind::kSoftCap) op.number = params.soft_cap;
  if (in.step.op == OpKind::kAddScalar) op.number = params.eps;
  if (GetOpInfo(in.step.op).inputs.size() > 1) {
    const Binding& b = in.in(1);
    if (b.buffer == BufferKind::kWeight) {
      ASSIGN_OR_RETURN(op.vector, VectorOf(b.value));
    } else {
      op.b = PlaceOf(b);
    }
  }
  calls_.push_back(MakeMapCall(op));
  return {};
}

}  // namespace nonstop
