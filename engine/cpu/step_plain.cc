// The plain ops, one function an op or a family. Rows are split among the parts, but for the
// products, which split the weight rows.
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/exact_math.h"
#include "cpu/step.h"

namespace nonstop::cpu {

void RunEmbed(const StepContext& context) {
  const auto& rows = context.run.batch.rows;
  Operand y = context.out();
  const PartRange part = GetPart(context, static_cast<uint32_t>(rows.size()), 1);
  for (uint32_t t = part.begin; t < part.end; ++t) {
    UnpackRow(*context.in(1).matrix, static_cast<uint32_t>(rows[t].id), y.row(t));
    if (context.params().scale != 1.0f) {
      context.kernels.scale(y.row(t), context.params().scale, y.width, y.row(t));
    }
  }
}

void RunMatMul(const StepContext& context) {
  const Operand& w = context.in(1);
  Operand y = context.out();
  PreparedRows x(context, context.in(0), nullptr);
  const PartRange part = GetPart(context, w.row_count, 8);
  if (part.begin < part.end) {
    Multiply(context, w, part.begin, part.end, x, y.rows + part.begin, y.width);
  }
}

namespace {

float Apply(OpKind op, const OpAttributes& params, float a, float b) {
  switch (op) {
    case OpKind::kAdd:
    case OpKind::kAddBias:
      return a + b;
    case OpKind::kMul:
      return a * b;
    case OpKind::kScale:
      return a * params.scale;
    case OpKind::kSilu:
      return static_cast<float>(a / (1.0 + ExactExp(-double{a})));
    case OpKind::kGelu: {
      const double x = a;
      constexpr double kSqrtTwoOverPi = 0.79788456080286535588;
      return static_cast<float>(0.5 * x *
                                (1.0 + ExactTanh(kSqrtTwoOverPi * x * (1.0 + 0.044715 * x * x))));
    }
    case OpKind::kSoftCap:
      return static_cast<float>(params.soft_cap * ExactTanh(double{a} / params.soft_cap));
    case OpKind::kSquare:
      return a * a;
    case OpKind::kAddScalar:
      return a + params.eps;
    case OpKind::kRsqrt:
      return 1.0f / std::sqrt(a);
    default:
      CHECK(!"not elementwise");
      return 0.0f;
  }
}

}  // namespace

void RunElementwise(const StepContext& context) {
  const Operand& a = context.in(0);
  const bool has_b = context.step.input_count > 1;
  Operand y = context.out();
  const PartRange part = GetPart(context, context.RowCount(y.row_space), 1);
  for (uint32_t t = part.begin; t < part.end; ++t) {
    const float* b_row = !has_b                            ? nullptr
                         : context.in(1).vector != nullptr ? context.in(1).vector
                                                           : context.in(1).row(t);
    for (uint32_t i = 0; i < y.width; ++i) {
      y.row(t)[i] = Apply(context.step.op, context.params(), a.row(t)[i], has_b ? b_row[i] : 0.0f);
    }
  }
}

namespace {

void GroupMeanRow(const float* x, uint32_t group, uint32_t group_count, float* y) {
  for (uint32_t g = 0; g < group_count; ++g) {
    double sum = 0.0;
    for (uint32_t i = 0; i < group; ++i) sum += static_cast<double>(x[g * group + i]);
    y[g] = static_cast<float>(sum / group);
  }
}

}  // namespace

void RunGroupwise(const StepContext& context) {
  const Operand& x = context.in(0);
  Operand y = context.out();
  const uint32_t group = context.params().group == 0 ? x.width : context.params().group;
  const PartRange part = GetPart(context, context.RowCount(y.row_space), 1);
  for (uint32_t t = part.begin; t < part.end; ++t) {
    if (context.step.op == OpKind::kGroupMean) {
      GroupMeanRow(x.row(t), group, x.width / group, y.row(t));
      continue;
    }
    const bool by_group = context.step.op == OpKind::kMulGroup;
    for (uint32_t i = 0; i < x.width; ++i) {
      const float factor =
          by_group ? context.in(1).row(t)[i / group] : context.in(1).vector[i % group];
      y.row(t)[i] = x.row(t)[i] * factor;
    }
  }
}

void RunRmsNorm(const StepContext& context) {
  const Operand& x = context.in(0);
  Operand y = context.out();
  const uint32_t group = context.params().group == 0 ? x.width : context.params().group;
  const PartRange part = GetPart(context, context.RowCount(y.row_space), 1);
  for (uint32_t t = part.begin; t < part.end; ++t) {
    for (uint32_t i = 0; i < x.width; i += group) {
      context.kernels.rms_norm(x.row(t) + i, context.in(1).vector, group, context.params().eps,
                               y.row(t) + i);
    }
  }
}

void RunRope(const StepContext& context) {
  const Operand& x = context.in(0);
  const OpAttributes& params = context.params();
  Operand y = context.out();
  const std::vector<float>& table = context.run.rope_tables[context.in(2).rope_table];
  const PartRange part = GetPart(context, context.RowCount(y.row_space), 1);
  for (uint32_t t = part.begin; t < part.end; ++t) {
    if (y.row(t) != x.row(t)) std::memcpy(y.row(t), x.row(t), x.width * sizeof(float));
    context.kernels.rope(y.row(t), x.width / params.head_dim, params.head_dim,
                         table.data() + size_t{t} * params.rotated_dim, params.rotated_dim / 2,
                         params.rope_halves != 0 ? RopeStyle::kHalves : RopeStyle::kAdjacent);
  }
}

void RunKvWrite(const StepContext& context) {
  const OpAttributes& params = context.params();
  const KvShape& kv = context.run.kv;
  const PartRange part = GetPart(context, context.RowCount(RowSpace::kTokens), 1);
  for (uint32_t t = part.begin; t < part.end; ++t) {
    const BatchRow& row = context.run.batch.rows[t];
    std::byte* page = context.run.pages[row.sequence][row.position / kKvPageTokenCount];
    const uint64_t offset = (row.position % kKvPageTokenCount) * kv.row_size_bytes();
    for (uint32_t head = 0; head < params.kv_head_count; ++head) {
      for (const bool is_value : {false, true}) {
        const float* source = context.in(is_value ? 2 : 1).row(t) + head * params.head_dim;
        context.kernels.store_kv(source, params.head_dim, kv.type,
                                 page + kv.HeadOffset(params.layer, is_value, head) + offset);
      }
    }
  }
}

void RunSelectRows(const StepContext& context) {
  Operand y = context.out();
  const auto& rows = context.run.batch.output_rows;
  const PartRange part = GetPart(context, static_cast<uint32_t>(rows.size()), 1);
  for (uint32_t i = part.begin; i < part.end; ++i) {
    std::memcpy(y.row(i), context.in(0).row(rows[i]), y.width * sizeof(float));
  }
}

}  // namespace nonstop::cpu
