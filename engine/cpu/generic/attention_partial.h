// Attention of one token's heads over a range of an f16 cache (AttendPartially, ops.h): the scores
// of up to four heads in one pass over K, four tokens at a time; softmax; then the weighted sum in
// one pass over V. What is computed for a range does not depend on who computes the others.
#pragma once

#include <algorithm>
#include <cmath>

#include "base/bytes.h"
#include "cpu/generic/attention_kv.h"
#include "cpu/generic/ops.h"

namespace nonstop::cpu {

template <class S>
class PartialAttention {
 public:
  using F = typename S::F;
  using Row = KvRowF16<S>;

  PartialAttention(const AttentionArgs& args, uint32_t token_begin, uint32_t token_end,
                   float* partial)
      : args_(args),
        begin_(token_begin),
        end_(token_end),
        first_(token_begin / 4 * 4),
        score_stride_(RoundUp(token_end, 4u) - first_),
        partial_(partial),
        q_(args.scratch),
        scores_(args.scratch + size_t{args.query_head_count} * args.head_dim) {}

  void Run() {
    OpsOn<S>::Scale(args_.q, Row::kFactor, args_.query_head_count * args_.head_dim, q_);
    for (uint32_t head = 0; head < args_.query_head_count; head += 4) {
      switch (std::min(args_.query_head_count - head, 4u)) {
        case 1:
          RunHeads<1>(head);
          break;
        case 2:
          RunHeads<2>(head);
          break;
        case 3:
          RunHeads<3>(head);
          break;
        default:
          RunHeads<4>(head);
      }
    }
  }

 private:
  static constexpr uint32_t kStreamQuads = 8;

  template <uint32_t kHeadCount>
  void RunHeads(uint32_t first_head) {
    for (uint32_t token = first_; token < end_;) {
      const uint32_t page_end = std::min(end_, (token / kKvPageTokenCount + 1) * kKvPageTokenCount);
      ScorePage<kHeadCount>(first_head, token, page_end);
      token = page_end;
    }
    for (uint32_t head = first_head; head < first_head + kHeadCount; ++head) {
      Softmax(Scores(head, begin_), Partial(head));
      std::fill_n(Partial(head), args_.head_dim, 0.0f);
    }
    for (uint32_t tile = begin_; tile < end_;) {
      const uint32_t tile_end = std::min(end_, (tile / kKvTileTokens + 1) * kKvTileTokens);
      AddValues<kHeadCount>(first_head, tile, tile_end);
      tile = tile_end;
    }
  }

  float* Scores(uint32_t head, uint32_t token) {
    return scores_ + size_t{head} * score_stride_ + (token - first_);
  }
  float* Partial(uint32_t head) {
    return partial_ + size_t{head} * (args_.head_dim + kPartialExtra);
  }

  // Tokens of one page. They are read as up to eight streams of 4 KiB or more, in turns, as
  // processors fetch ahead only to the end of a page of memory.
  template <uint32_t kHeadCount>
  void ScorePage(uint32_t first_head, uint32_t begin, uint32_t end) {
    const uint32_t quad_count = DivideRoundUp(end - begin, 4u);
    const uint32_t stream_count = DivideRoundUp(quad_count, kStreamQuads);
    const uint32_t length = DivideRoundUp(quad_count, stream_count);
    for (uint32_t i = 0; i < length; ++i) {
      for (uint32_t quad = i; quad < quad_count; quad += length) {
        ScoreTokens<kHeadCount>(first_head, begin + quad * 4);
      }
    }
  }

  // One accumulator for each head and token: twelve of them hide the latency of the additions.
  // `token` is a multiple of 4, so all four lie in one page; the scores of those outside the range
  // are not looked at.
  template <uint32_t kHeadCount>
  void ScoreTokens(uint32_t first_head, uint32_t token) {
    const size_t row_size_bytes = size_t{args_.head_dim} * Row::kSizeBytes;
    const std::byte* keys = KvRowOf<Row>(args_, args_.k_offset_bytes, token);
    const std::byte* values = KvRowOf<Row>(args_, args_.v_offset_bytes, token);
    const float* q = q_ + size_t{first_head} * args_.head_dim;
    F sums[kHeadCount][4];
    for (auto& head : sums) std::fill_n(head, 4, S::SplatF(0));
    for (uint32_t i = 0; i < args_.head_dim; i += 8, keys += 8 * Row::kSizeBytes) {
      S::Touch(values + size_t{i} * 4 * Row::kSizeBytes);  // of the four tokens: AddValues' next
#pragma clang loop unroll(full)
      for (uint32_t t = 0; t < 4; ++t) {
        const FloatPair<S> key = Row::Load(keys + t * row_size_bytes);
#pragma clang loop unroll(full)
        for (uint32_t h = 0; h < kHeadCount; ++h) {
          const float* at = q + h * args_.head_dim + i;
          sums[h][t] = S::Fma(key.half[0], S::LoadF(at), sums[h][t]);
          sums[h][t] = S::Fma(key.half[1], S::LoadF(at + 4), sums[h][t]);
        }
      }
    }
    const F factor = S::SplatF(Row::kFactor * args_.scale);
    for (uint32_t h = 0; h < kHeadCount; ++h) {
      float* to = Scores(first_head + h, token);
      S::Transpose(sums[h]);
      const F sum =
          S::Mul(factor, S::Add(S::Add(sums[h][0], sums[h][2]), S::Add(sums[h][1], sums[h][3])));
      S::StoreF(to, sum);
    }
  }

  // Scores become weights, times Row::kFactor.
  void Softmax(float* scores, float* partial) {
    const uint32_t count = end_ - begin_;
    if (args_.soft_cap != 0) OpsOn<S>::SoftCap(scores, args_.soft_cap, count, scores);
    const float largest = OpsOn<S>::Largest(scores, count);
    partial[args_.head_dim] = largest;
    partial[args_.head_dim + 1] = OpsOn<S>::ExpAndSum(scores, largest, count);
    OpsOn<S>::Scale(scores, Row::kFactor, count, scores);
  }

  // partial[h] += sum of weight * V over tokens [begin, end) of one tile.
  template <uint32_t kHeadCount>
  void AddValues(uint32_t first_head, uint32_t begin, uint32_t end) {
    const size_t row_size_bytes = size_t{args_.head_dim} * Row::kSizeBytes;
    const std::byte* values = KvRowOf<Row>(args_, args_.v_offset_bytes, begin);
    const float* weights = Scores(first_head, begin);
    for (uint32_t i = 0; i < args_.head_dim; i += 8, values += 8 * Row::kSizeBytes) {
      FloatPair<S> sums[kHeadCount];
      for (auto& sum : sums) sum = {{S::SplatF(0), S::SplatF(0)}};
      const std::byte* v = values;
      for (uint32_t token = 0; token < end - begin; ++token, v += row_size_bytes) {
        const FloatPair<S> value = Row::Load(v);
#pragma clang loop unroll(full)
        for (uint32_t h = 0; h < kHeadCount; ++h) {
          const F weight = S::LoadSplatF(weights + h * size_t{score_stride_} + token);
          sums[h].half[0] = S::Fma(weight, value.half[0], sums[h].half[0]);
          sums[h].half[1] = S::Fma(weight, value.half[1], sums[h].half[1]);
        }
      }
      const F factor = S::SplatF(Row::kFactor);
      for (uint32_t h = 0; h < kHeadCount; ++h) {
        float* to = Partial(first_head + h) + i;
        S::StoreF(to, S::Fma(sums[h].half[0], factor, S::LoadF(to)));
        S::StoreF(to + 4, S::Fma(sums[h].half[1], factor, S::LoadF(to + 4)));
      }
    }
  }

  const AttentionArgs& args_;
  const uint32_t begin_, end_;
  const uint32_t first_;  // whose score is kept
  const uint32_t score_stride_;
  float* const partial_;
  float* const q_;
  float* const scores_;
};

// See MergePartials (ops.h).
template <class S>
void MergePartialsOn(const AttentionArgs& args, const float* partials, uint32_t partial_count) {
  const size_t head_stride = args.head_dim + kPartialExtra;
  const size_t stride = args.query_head_count * head_stride;
  for (uint32_t head = 0; head < args.query_head_count; ++head) {
    const float* first = partials + head * head_stride;
    float* out = args.out + size_t{head} * args.head_dim;
    float largest = -INFINITY;
    for (uint32_t i = 0; i < partial_count; ++i) {
      largest = std::max(largest, first[i * stride + args.head_dim]);
    }
    float total = 0;
    std::fill_n(out, args.head_dim, 0.0f);
    for (uint32_t i = 0; i < partial_count; ++i) {
      const float* partial = first + i * stride;
      const float factor = OpsOn<S>::ExpOf(partial[args.head_dim] - largest);
      total += factor * partial[args.head_dim + 1];
      OpsOn<S>::AddScaled(partial, factor, args.head_dim, out);
    }
    OpsOn<S>::Scale(out, 1.0f / total, args.head_dim, out);
  }
}

}  // namespace nonstop::cpu
