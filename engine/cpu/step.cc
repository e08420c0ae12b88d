#include "cpu/step.h"

#include <algorithm>
#include <cstring>

namespace nonstop::cpu {

PartRange GetPart(const StepContext& context, uint32_t count, uint32_t unit) {
  const uint64_t unit_count = DivideRoundUp(count, unit);
  const auto cut = [&](uint64_t part) {
    return static_cast<uint32_t>(
        std::min<uint64_t>(count, unit_count * part / context.part_count * unit));
  };
  return {cut(context.part), cut(context.part + 1)};
}

PreparedRows::PreparedRows(const StepContext& context, const Operand& x, const float* norm)
    : context_(context), x_(x), norm_(norm) {}

const Activations& PreparedRows::For(const Matrix& matrix) {
  const ActivationType type = ChooseActivation(matrix.dtype, context_.activation);
  const auto index = static_cast<size_t>(type);
  Activations& prepared = prepared_[index];
  if (is_ready_[index]) return prepared;
  is_ready_[index] = true;
  std::byte* out = context_.scratch.prepared[index].data();
  prepared = {.type = type,
              .row_count = context_.RowCount(x_.row_space),
              .column_count = x_.width,
              .data = out};
  const size_t stride = ActivationRowSizeBytes(type, x_.width);
  auto* normed = reinterpret_cast<float*>(context_.scratch.row.data());
  for (uint32_t t = 0; t < prepared.row_count; ++t) {
    const float* row = x_.row(t);
    if (norm_ != nullptr) {
      context_.kernels.rms_norm(row, norm_, x_.width, context_.params().eps, normed);
      row = normed;
    }
    PrepareActivationRow(type, row, x_.width, out + t * stride);
  }
  return prepared;
}

void Multiply(const StepContext& context, const Operand& w, uint32_t begin, uint32_t end,
              PreparedRows& x, float* y, size_t y_stride) {
  const Matrix& matrix = *w.matrix;
  const Activations& rows = x.For(matrix);
  context.kernels.mat_mul(matrix, w.row_begin + begin, w.row_begin + end, rows, y, y_stride);
}

StepFunction FindStepFunction(OpKind op) {
  switch (op) {
    case OpKind::kEmbed:
      return RunEmbed;
    case OpKind::kMatMul:
      return RunMatMul;
    case OpKind::kAddBias:
    case OpKind::kAdd:
    case OpKind::kMul:
    case OpKind::kScale:
    case OpKind::kSilu:
    case OpKind::kGelu:
    case OpKind::kSoftCap:
    case OpKind::kSquare:
    case OpKind::kAddScalar:
    case OpKind::kRsqrt:
      return RunElementwise;
    case OpKind::kGroupMean:
    case OpKind::kMulGroup:
    case OpKind::kMulWeight:
      return RunGroupwise;
    case OpKind::kRope:
      return RunRope;
    case OpKind::kKvWrite:
      return RunKvWrite;
    case OpKind::kAttention:
      return RunAttention;
    case OpKind::kSelectRows:
      return RunSelectRows;
    case OpKind::kRmsNorm:
      return RunRmsNorm;
    case OpKind::kNormMatMul:
      return RunNormMatMul;
    case OpKind::kMatMulAdd:
      return RunMatMulAdd;
    case OpKind::kNormAdd:
      return RunNormAdd;
    case OpKind::kNormGateUp:
      return RunNormGateUp;
    case OpKind::kNormQkv:
      return RunNormQkv;
    case OpKind::kCount:
      break;
  }
  return nullptr;
}

bool SplitsRows(OpKind op) {
  switch (op) {
    case OpKind::kMatMul:
    case OpKind::kNormMatMul:
    case OpKind::kMatMulAdd:
    case OpKind::kNormGateUp:
    case OpKind::kNormQkv:
    case OpKind::kAttention:
      return false;
    default:
      return true;
  }
}

}  // namespace nonstop::cpu
