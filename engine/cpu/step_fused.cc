// The fused ops. Each part norms and quantizes the rows for itself (cheaper than a barrier), then
// multiplies its share of the weight rows and finishes what it has multiplied while it is in cache.
#include <algorithm>

#include "cpu/step.h"

namespace nonstop::cpu {
namespace {

float* Products(const StepContext& context) {
  return reinterpret_cast<float*>(context.scratch.products.data());
}

// Calls visit(begin, end) for chunks of this part's rows.
template <class Visit>
void ForEachChunk(const StepContext& context, uint32_t row_count, uint32_t token_count,
                  Visit&& visit) {
  const PartRange part = GetPart(context, row_count, 8);
  const uint32_t chunk_rows = ChunkRows(token_count);
  for (uint32_t begin = part.begin; begin < part.end; begin += chunk_rows) {
    visit(begin, std::min(begin + chunk_rows, part.end));
  }
}

}  // namespace

void RunNormMatMul(const StepContext& context) {
  const Operand& w = context.in(2);
  Operand y = context.out();
  const uint32_t row_count = context.RowCount(y.row_space);
  const float cap = context.params().soft_cap;
  PreparedRows x(context, context.in(0), context.in(1).vector);
  ForEachChunk(context, w.row_count, row_count, [&](uint32_t begin, uint32_t end) {
    Multiply(context, w, begin, end, x, y.rows + begin, y.width);
    if (cap == 0.0f) return;
    for (uint32_t t = 0; t < row_count; ++t) {
      context.kernels.soft_cap(y.row(t) + begin, cap, end - begin, y.row(t) + begin);
    }
  });
}

void RunMatMulAdd(const StepContext& context) {
  const Operand& w = context.in(1);
  const Operand& residual = context.in(2);
  Operand y = context.out();
  const uint32_t row_count = context.RowCount(y.row_space);
  PreparedRows x(context, context.in(0), nullptr);
  float* products = Products(context);
  ForEachChunk(context, w.row_count, row_count, [&](uint32_t begin, uint32_t end) {
    const uint32_t count = end - begin;
    Multiply(context, w, begin, end, x, products, count);
    for (uint32_t t = 0; t < row_count; ++t) {
      context.kernels.add(residual.row(t) + begin, products + size_t{t} * count, count,
                          y.row(t) + begin);
    }
  });
}

void RunNormAdd(const StepContext& context) {
  const Operand& x = context.in(0);
  Operand y = context.out();
  auto* normed = reinterpret_cast<float*>(context.scratch.row.data());
  const PartRange part = GetPart(context, context.RowCount(y.row_space), 1);
  for (uint32_t t = part.begin; t < part.end; ++t) {
    context.kernels.rms_norm(x.row(t), context.in(1).vector, x.width, context.params().eps, normed);
    context.kernels.add(context.in(2).row(t), normed, x.width, y.row(t));
  }
}

void RunNormGateUp(const StepContext& context) {
  const Operand& gate = context.in(2);
  const Operand& up = context.in(3);
  Operand y = context.out();
  const uint32_t row_count = context.RowCount(y.row_space);
  const bool is_gelu = context.params().activation == static_cast<uint32_t>(Activation::kGelu);
  const auto multiply_activated = is_gelu ? context.kernels.gelu_mul : context.kernels.silu_mul;
  PreparedRows x(context, context.in(0), context.in(1).vector);
  float* gates = Products(context);
  float* ups = gates + size_t{row_count} * ChunkRows(row_count);
  ForEachChunk(context, gate.row_count, row_count, [&](uint32_t begin, uint32_t end) {
    const uint32_t count = end - begin;
    Multiply(context, gate, begin, end, x, gates, count);
    Multiply(context, up, begin, end, x, ups, count);
    for (uint32_t t = 0; t < row_count; ++t) {
      multiply_activated(gates + size_t{t} * count, ups + size_t{t} * count, count,
                         y.row(t) + begin);
    }
  });
}

namespace {

// One head of Q, K or V for every token: product, bias, head norm, RoPE, and where it goes.
class HeadWriter {
 public:
  explicit HeadWriter(const StepContext& context)
      : context_(context),
        params_(context.params()),
        rope_table_(context.run.rope_tables[context.in(11).rope_table]),
        x_(context, context.in(0), context.in(1).vector) {}

  void Query(uint32_t head) {
    Project(2, 5, 8, head);
    Rotate();
    Operand q = context_.out();
    for (uint32_t t = 0; t < TokenCount(); ++t) {
      std::copy_n(Row(t), params_.head_dim, q.row(t) + head * params_.head_dim);
    }
  }
  void Key(uint32_t head) {
    Project(3, 6, 9, head);
    Rotate();
    Store(head, false);
  }
  void Value(uint32_t head) {
    Project(4, 7, kNoSlot, head);
    Store(head, true);
  }

 private:
  static constexpr size_t kNoSlot = SIZE_MAX;

  uint32_t TokenCount() const { return context_.RowCount(RowSpace::kTokens); }
  float* Row(uint32_t t) const { return Products(context_) + size_t{t} * params_.head_dim; }

  void Project(size_t matrix_slot, size_t bias_slot, size_t norm_slot, uint32_t head) {
    const uint32_t begin = head * params_.head_dim;
    Multiply(context_, context_.in(matrix_slot), begin, begin + params_.head_dim, x_, Row(0),
             params_.head_dim);
    const Operand& bias = context_.in(bias_slot);
    for (uint32_t t = 0; t < TokenCount(); ++t) {
      float* row = Row(t);
      if (bias.is_present) context_.kernels.add(row, bias.vector + begin, params_.head_dim, row);
      if (norm_slot != kNoSlot && context_.in(norm_slot).is_present) {
        context_.kernels.rms_norm(row, context_.in(norm_slot).vector, params_.head_dim, params_.eps,
                                  row);
      }
    }
  }

  void Rotate() {
    const RopeStyle style = params_.rope_halves != 0 ? RopeStyle::kHalves : RopeStyle::kAdjacent;
    for (uint32_t t = 0; t < TokenCount(); ++t) {
      context_.kernels.rope(Row(t), 1, params_.head_dim,
                            rope_table_.data() + size_t{t} * params_.rotated_dim,
                            params_.rotated_dim / 2, style);
    }
  }

  void Store(uint32_t head, bool is_value) {
    const KvShape& kv = context_.run.kv;
    const uint64_t head_offset = kv.HeadOffset(params_.layer, is_value, head);
    for (uint32_t t = 0; t < TokenCount(); ++t) {
      const BatchRow& row = context_.run.batch.rows[t];
      std::byte* page = context_.run.pages[row.sequence][row.position / kKvPageTokenCount];
      context_.kernels.store_kv(
          Row(t), params_.head_dim, kv.type,
          page + head_offset + (row.position % kKvPageTokenCount) * kv.row_size_bytes());
    }
  }

  const StepContext& context_;
  const OpAttributes& params_;
  const std::vector<float>& rope_table_;
  PreparedRows x_;
};

}  // namespace

void RunNormQkv(const StepContext& context) {
  const uint32_t q_heads = context.params().head_count;
  const uint32_t kv_heads = context.params().kv_head_count;
  const PartRange part = GetPart(context, q_heads + 2 * kv_heads, 1);
  HeadWriter writer(context);
  for (uint32_t unit = part.begin; unit < part.end; ++unit) {
    if (unit < q_heads) {
      writer.Query(unit);
    } else if (unit < q_heads + kv_heads) {
      writer.Key(unit - q_heads);
    } else {
      writer.Value(unit - q_heads - kv_heads);
    }
  }
}

}  // namespace nonstop::cpu
