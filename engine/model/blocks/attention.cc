// Norm, Q K V, positions, cache, attention, output projection [, norm].
#include "model/model.h"
#include "model/registry.h"

namespace nonstop {
namespace {

struct Projections {
  ValueId q, k, v;
};

Projections ProjectFused(ModelBuilder& model, uint32_t layer, ValueId normed) {
  const ModelSpec& spec = model.spec;
  const std::string name = LayerTensor(layer, "attn_qkv.weight");
  const uint32_t q_rows = spec.q_width();
  const uint32_t kv_rows = spec.kv_width();
  const uint32_t all_rows = q_rows + 2 * kv_rows;
  const auto project = [&](uint32_t row_begin, uint32_t row_count) {
    const ValueId w = model.MatrixRows(name, row_begin, row_count, all_rows, spec.width);
    return model.build.Add(OpKind::kMatMul, {normed, w});
  };
  return {project(0, q_rows), project(q_rows, kv_rows), project(q_rows + kv_rows, kv_rows)};
}

ValueId Project(ModelBuilder& model, uint32_t layer, const char* matrix, const char* bias,
                uint32_t row_count, ValueId normed) {
  const ValueId w = model.Matrix(LayerTensor(layer, matrix), row_count, model.spec.width);
  const ValueId y = model.build.Add(OpKind::kMatMul, {normed, w});
  const std::string bias_name = LayerTensor(layer, bias);
  if (!model.spec.architecture->has_qkv_bias && !model.Has(bias_name)) return y;
  return model.build.Add(OpKind::kAddBias, {y, model.Vector(bias_name, row_count)});
}

Projections ProjectApart(ModelBuilder& model, uint32_t layer, ValueId normed) {
  const uint32_t kv_rows = model.spec.kv_width();
  return {Project(model, layer, "attn_q.weight", "attn_q.bias", model.spec.q_width(), normed),
          Project(model, layer, "attn_k.weight", "attn_k.bias", kv_rows, normed),
          Project(model, layer, "attn_v.weight", "attn_v.bias", kv_rows, normed)};
}

ValueId HeadNorm(ModelBuilder& model, uint32_t layer, const char* tensor, ValueId x) {
  const uint32_t head_dim = model.spec.head_dim;
  const ValueId w = model.Vector(LayerTensor(layer, tensor), head_dim);
  return model.build.Add(OpKind::kRmsNorm, {x, w}, {.eps = model.spec.norm_eps, .group = head_dim});
}

}  // namespace

ValueId AttentionBlock(ModelBuilder& model, uint32_t layer, bool selects_rows, ValueId* residual,
                       ValueId* cache) {
  const ModelSpec& spec = model.spec;
  const ArchitectureRow& row = *spec.architecture;
  GraphBuilder& build = model.build;
  const ValueId positions = build.Indices("positions");
  const ValueId frequencies = model.Rope(spec.layers[layer].rope_index);

  const ValueId normed = model.RmsNorm(*residual, LayerTensor(layer, "attn_norm.weight"));
  Projections p =
      row.has_fused_qkv ? ProjectFused(model, layer, normed) : ProjectApart(model, layer, normed);
  if (row.has_head_norms) {
    p.q = HeadNorm(model, layer, "attn_q_norm.weight", p.q);
    p.k = HeadNorm(model, layer, "attn_k_norm.weight", p.k);
  }
  const OpAttributes rope = {.rope_magnitude = spec.ropes[spec.layers[layer].rope_index].magnitude,
                             .head_dim = spec.head_dim,
                             .rotated_dim = spec.rotated_dim,
                             .rope_halves = row.rope_halves ? 1u : 0u};
  p.q = build.Add(OpKind::kRope, {p.q, positions, frequencies}, rope);
  p.k = build.Add(OpKind::kRope, {p.k, positions, frequencies}, rope);
  *cache =
      build.Add(OpKind::kKvWrite, {*cache, p.k, p.v, positions},
                {.head_dim = spec.head_dim, .kv_head_count = spec.kv_head_count, .layer = layer});
  ValueId attended = build.Add(OpKind::kAttention, {p.q, *cache, positions},
                               {.scale = spec.attention_scale,
                                .soft_cap = spec.attention_soft_cap,
                                .head_dim = spec.head_dim,
                                .head_count = spec.head_count,
                                .kv_head_count = spec.kv_head_count,
                                .window = spec.layers[layer].window,
                                .layer = layer});
  if (selects_rows) {
    const ValueId rows = build.Indices("output_rows");
    attended = build.Add(OpKind::kSelectRows, {attended, rows});
    *residual = build.Add(OpKind::kSelectRows, {*residual, rows});
  }
  const ValueId w =
      model.Matrix(LayerTensor(layer, "attn_output.weight"), spec.width, spec.q_width());
  const ValueId y = build.Add(OpKind::kMatMul, {attended, w});
  return row.has_post_norms ? model.RmsNorm(y, LayerTensor(layer, "post_attention_norm.weight"))
                            : y;
}

}  // namespace nonstop
