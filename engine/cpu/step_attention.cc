// Attention as a step. A prompt's rows go in tiles of tokens for each KV head. A sequence that adds
// one token is split over its context instead; who computes the last part of a KV head puts the
// parts together, in their order, so that no barrier is needed and the result has the same bits
// however many threads there are.
#include <algorithm>
#include <atomic>

#include "base/check.h"
#include "cpu/step.h"

namespace nonstop::cpu {
namespace {

// Rows (tokens x heads of a KV head) that meet each converted tile of the cache.
constexpr uint32_t kTileRows = 48;
constexpr uint32_t kLeastRangeTokens = 64;

class AttentionStep {
 public:
  explicit AttentionStep(const StepContext& context)
      : context_(context),
        params_(context.params()),
        rows_(context.run.batch.rows),
        group_(params_.head_count / params_.kv_head_count) {}

  void Run() {
    // Ranges and tiles round differently by a millionth, which an f16 cache may turn into more.
    // Where exactness was asked for, a token has the same bits however its prompt was cut: tiles
    // only.
    const bool can_split = context_.activation == ActivationType::kQ8 &&
                           context_.run.partials != nullptr &&
                           context_.kernels.attend_partially != nullptr &&
                           context_.run.kv.type == KvType::kF16 && params_.head_dim % 8 == 0;
    for (uint32_t row = 0; row < rows_.size();) {
      const uint32_t count = RunLength(row);
      if (count == 1 && can_split) {
        AttendInRanges(row);
      } else {
        AttendInTiles(row, count);
      }
      row += count;
    }
  }

 private:
  // Units of work are dealt out in turn: later tiles of a prompt see more.
  bool IsMine() { return unit_++ % context_.part_count == context_.part; }

  // Rows from `row` on that are neighbouring positions of one sequence.
  uint32_t RunLength(uint32_t row) const {
    uint32_t count = 1;
    while (row + count < rows_.size() && rows_[row + count].sequence == rows_[row].sequence &&
           rows_[row + count].position == rows_[row].position + count) {
      ++count;
    }
    return count;
  }

  AttentionArgs Args(uint32_t row, uint32_t token_count, uint32_t kv_head) const {
    const KvShape& kv = context_.run.kv;
    const size_t first_column = size_t{kv_head} * group_ * params_.head_dim;
    const Operand& q = context_.in(0);
    Operand y = context_.out();
    return {
        .pages = context_.run.pages[rows_[row].sequence].data(),
        .k_offset_bytes = kv.HeadOffset(params_.layer, false, kv_head),
        .v_offset_bytes = kv.HeadOffset(params_.layer, true, kv_head),
        .kv_type = kv.type,
        .head_dim = params_.head_dim,
        .query_head_count = group_,
        .position = rows_[row].position,
        .token_count = token_count,
        .window = params_.window,
        .scale = params_.scale,
        .soft_cap = params_.soft_cap,
        .q = q.row(row) + first_column,
        .q_stride = q.width,
        .out = y.row(row) + first_column,
        .out_stride = y.width,
        .scratch = reinterpret_cast<float*>(context_.scratch.attention.data()),
    };
  }

  void AttendInTiles(uint32_t first_row, uint32_t row_count) {
    const uint32_t tile = AttentionTileTokens(group_);
    for (uint32_t row = 0; row < row_count; row += tile) {
      for (uint32_t kv_head = 0; kv_head < params_.kv_head_count; ++kv_head) {
        if (!IsMine()) continue;
        context_.kernels.attention(Args(first_row + row, std::min(tile, row_count - row), kv_head));
      }
    }
  }

  void AttendInRanges(uint32_t row) {
    const uint32_t end = rows_[row].position + 1;
    const uint32_t begin = Args(row, 1, 0).FirstSeenBy(0);
    const uint32_t length = AttentionRangeTokens(end);
    const uint32_t first_range = begin / length;
    const uint32_t range_count = DivideRoundUp(end, length) - first_range;
    for (uint32_t kv_head = 0; kv_head < params_.kv_head_count; ++kv_head) {
      const AttentionArgs args = Args(row, 1, kv_head);
      const size_t head = size_t{row} * params_.kv_head_count + kv_head;
      const size_t partial_floats = AttentionPartialFloats(params_);
      float* partials = context_.run.partials + head * kMostRanges * partial_floats;
      for (uint32_t i = 0; i < range_count; ++i) {
        if (!IsMine()) continue;
        const uint32_t range_begin = (first_range + i) * length;
        context_.kernels.attend_partially(args, std::max(begin, range_begin),
                                          std::min(end, range_begin + length),
                                          partials + i * partial_floats);
        std::atomic<uint32_t>& done = context_.run.ranges_done[head];
        if (done.fetch_add(1, std::memory_order_acq_rel) + 1 != range_count) continue;
        done.store(0, std::memory_order_relaxed);  // for the next layer, behind a barrier
        context_.kernels.merge_partials(args, partials, range_count);
      }
    }
  }

  const StepContext& context_;
  const OpAttributes& params_;
  std::span<const BatchRow> rows_;
  const uint32_t group_;
  uint32_t unit_ = 0;
};

}  // namespace

uint32_t AttentionTileTokens(uint32_t query_head_count) {
  return std::max(kTileRows / query_head_count, 1u);
}

uint32_t AttentionRangeTokens(uint32_t token_count) {
  return kLeastRangeTokens * DivideRoundUp(token_count, kLeastRangeTokens * kMostRanges);
}

size_t AttentionPartialFloats(const OpAttributes& params) {
  return size_t{params.head_count} / params.kv_head_count * (params.head_dim + kPartialExtra);
}

void RunAttention(const StepContext& context) { AttentionStep(context).Run(); }

}  // namespace nonstop::cpu
