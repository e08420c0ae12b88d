// The kernels of each step of a plan: most steps are one dispatch.
#pragma once

#include <initializer_list>
#include <optional>
#include <vector>

#include "model/model.h"
#include "plan/plan.h"
#include "webgpu/attention.h"
#include "webgpu/gpu_model.h"

namespace nonstop {

class StepLowering {
 public:
  // `row_limit`: most tokens of a run. All that is passed must outlive this.
  StepLowering(const GpuModel& model, const Plan& plan, const GpuArenas& arenas, Phase phase,
               uint32_t row_limit);

  // In the order of execution; to be called for one step after the other.
  Result<std::vector<KernelCall>> Lower(const Step& step);

 private:
  struct Operands;

  Status Dispatch(const Operands& in);
  Status Embed(const Operands& in);
  Status Product(const Operands& in);
  Status GateUp(const Operands& in);
  Status Qkv(const Operands& in);
  Status Attention(const Operands& in);
  void DecodeAttention(const Operands& in, AttentionOp op);
  Status Rows(const Operands& in);
  Status Map(const Operands& in);

  Status AddProduct(ProductOp op, ActivationPlace x, ActivationPlace residual, ActivationPlace y);
  // Has a product norm its rows: itself where it can, else by a dispatch before it.
  Result<ActivationPlace> Norm(ActivationPlace x, ValueId norm, float eps, RowSpace row_space,
                               ProductOp* op);

  const Value& value(const Binding& binding) const { return plan_.graph.value(binding.value); }
  uint32_t LimitOf(RowSpace row_space) const;
  ActivationPlace PlaceOf(const Binding& binding) const;
  Result<GpuMatrix> MatrixOf(const Binding& binding) const;
  Result<uint32_t> VectorOf(ValueId id) const;
  Result<RotationOp> RotationOf(const Binding& frequencies, const OpAttributes& params) const;
  // Whether the only reader of `id` is the first input of a step with one of these ops.
  bool IsReadOnlyBy(ValueId id, std::initializer_list<OpKind> ops) const;

  const GpuModel& model_;
  const Plan& plan_;
  const GpuArenas& arenas_;
  Phase phase_;
  uint32_t row_limit_;
  std::vector<KernelCall> calls_;  // of the step being lowered
  // What norm_qkv leaves for the attention that reads its q.
  std::optional<HeadRows> rows_for_attention_;
  // What attention leaves for the product that reads it.
  std::optional<AttentionParts> parts_for_product_;
};

}  // namespace nonstop
