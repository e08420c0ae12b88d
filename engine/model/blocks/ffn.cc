// Norm, gate and up, activation, down [, norm].
#include "model/model.h"
#include "model/registry.h"

namespace nonstop {

ValueId FeedForwardBlock(ModelBuilder& model, uint32_t layer, ValueId residual) {
  const ModelSpec& spec = model.spec;
  const ArchitectureRow& row = *spec.architecture;
  GraphBuilder& build = model.build;
  const ValueId normed = model.RmsNorm(residual, LayerTensor(layer, "ffn_norm.weight"));
  const std::string up_name = LayerTensor(layer, "ffn_up.weight");
  const ValueId w_gate =
      row.has_fused_gate_up
          ? model.MatrixRows(up_name, 0, spec.ff_width, 2 * spec.ff_width, spec.width)
          : model.Matrix(LayerTensor(layer, "ffn_gate.weight"), spec.ff_width, spec.width);
  const ValueId w_up =
      row.has_fused_gate_up
          ? model.MatrixRows(up_name, spec.ff_width, spec.ff_width, 2 * spec.ff_width, spec.width)
          : model.Matrix(up_name, spec.ff_width, spec.width);
  const ValueId gate = build.Add(OpKind::kMatMul, {normed, w_gate});
  const ValueId up = build.Add(OpKind::kMatMul, {normed, w_up});
  const ValueId active =
      build.Add(row.activation == Activation::kGelu ? OpKind::kGelu : OpKind::kSilu, {gate});
  const ValueId hidden = build.Add(OpKind::kMul, {active, up});
  const ValueId w_down =
      model.Matrix(LayerTensor(layer, "ffn_down.weight"), spec.width, spec.ff_width);
  const ValueId y = build.Add(OpKind::kMatMul, {hidden, w_down});
  return row.has_post_norms ? model.RmsNorm(y, LayerTensor(layer, "post_ffw_norm.weight")) : y;
}

}  // namespace nonstop
