// Attention of one token's query heads that share a KV head, over a vector target S: scores of up
// to four heads in one pass over K, softmax, then the weighted sum in one pass over V. f16 is
// converted in registers, without its exponent's correction: q and the weights carry half of it
// (2^56), the results the other half.
#pragma once

#include <algorithm>
#include <cmath>

#include "cpu/generic/math.h"
#include "cpu/generic/ops.h"
#include "cpu/generic/quant_matmul.h"
#include "cpu/ops.h"

namespace nonstop::cpu {

// Eight neighbouring elements of a K or V row.
template <class S>
struct KvRowF16 {
  static constexpr uint32_t kSizeBytes = 2;
  static constexpr float kFactor = 0x1p56f;
  static FloatPair<S> Load(const std::byte* at) { return LoadSmallHalves8<S>(at); }
};
template <class S>
struct KvRowF32 {
  static constexpr uint32_t kSizeBytes = 4;
  static constexpr float kFactor = 1.0f;
  static FloatPair<S> Load(const std::byte* at) { return LoadFloats8<S>(at); }
};

template <class S, class Row>
class AttentionOn {
 public:
  using F = typename S::F;

  explicit AttentionOn(const AttentionArgs& args)
      : args_(args),
        token_count_(args.token_end - args.token_begin),
        score_stride_((token_count_ + 3) / 4 * 4),
        q_(args.scratch),
        scores_(args.scratch + size_t{args.query_head_count} * args.head_dim) {}

  void Run() {
    const uint32_t float_count = args_.query_head_count * args_.head_dim;
    OpsOn<S>::Scale(args_.q, Row::kFactor, float_count, q_);
    std::fill_n(args_.out, float_count, 0.0f);
    // The f32 cache serves exactness, not speed: one head at a time is less code.
    constexpr uint32_t kMostHeads = Row::kSizeBytes == 2 ? 4 : 1;
    for (uint32_t head = 0; head < args_.query_head_count; head += kMostHeads) {
      if constexpr (kMostHeads == 1) {
        RunHeads<1>(head);
        continue;
      }
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
  // Tokens whose V rows stay in the first-level cache while all elements pass over them.
  static constexpr uint32_t kTokenTile = 64;

  template <int kHeadCount>
  void RunHeads(uint32_t first_head) {
    for (uint32_t token = args_.token_begin; token < args_.token_end; ++token) {
      ScoreToken<kHeadCount>(first_head, token);
    }
    for (uint32_t head = first_head; head < first_head + kHeadCount; ++head) Softmax(Scores(head));
    for (uint32_t begin = args_.token_begin; begin < args_.token_end;) {
      const uint32_t tile_end = (begin / kTokenTile + 1) * kTokenTile;
      const uint32_t end = std::min(tile_end, args_.token_end);
      AddValues<kHeadCount>(first_head, begin, end);
      begin = end;
    }
  }

  // Tiles do not cross pages: kTokenTile divides kKvPageTokenCount.
  const std::byte* KvRow(uint64_t offset_bytes, uint32_t token) const {
    return args_.pages[token / kKvPageTokenCount] + offset_bytes +
           size_t{token % kKvPageTokenCount} * args_.head_dim * Row::kSizeBytes;
  }
  float* Scores(uint32_t head) { return scores_ + size_t{head} * score_stride_; }

  template <int kHeadCount>
  void ScoreToken(uint32_t first_head, uint32_t token) {
    const std::byte* k = KvRow(args_.k_offset_bytes, token);
    const float* q = q_ + size_t{first_head} * args_.head_dim;
    FloatPair<S> sums[kHeadCount];
    for (auto& sum : sums) sum = {{S::SplatF(0), S::SplatF(0)}};
    for (uint32_t i = 0; i < args_.head_dim; i += 8, k += 8 * Row::kSizeBytes) {
      const FloatPair<S> keys = Row::Load(k);
#pragma clang loop unroll(full)
      for (int h = 0; h < kHeadCount; ++h) {
        const float* at = q + static_cast<uint32_t>(h) * args_.head_dim + i;
        sums[h].half[0] = S::Fma(keys.half[0], S::LoadF(at), sums[h].half[0]);
        sums[h].half[1] = S::Fma(keys.half[1], S::LoadF(at + 4), sums[h].half[1]);
      }
    }
    for (int h = 0; h < kHeadCount; ++h) {
      Scores(first_head + static_cast<uint32_t>(h))[token - args_.token_begin] =
          S::Sum(S::Add(sums[h].half[0], sums[h].half[1])) * Row::kFactor * args_.scale;
    }
  }

  // Scores become weights, times Row::kFactor; they sum to that.
  void Softmax(float* scores) {
    if (args_.soft_cap != 0) OpsOn<S>::SoftCap(scores, args_.soft_cap, token_count_, scores);
    std::fill(scores + token_count_, scores + score_stride_, -INFINITY);
    F largest = S::LoadF(scores);
    for (uint32_t i = 4; i < score_stride_; i += 4) largest = S::Max(largest, S::LoadF(scores + i));
    float lanes[4];
    S::StoreF(lanes, largest);
    const F shift = S::SplatF(std::max(std::max(lanes[0], lanes[1]), std::max(lanes[2], lanes[3])));
    F total = S::SplatF(0);
    for (uint32_t i = 0; i < score_stride_; i += 4) {
      const F weight = Exp<S>(S::Sub(S::LoadF(scores + i), shift));
      S::StoreF(scores + i, weight);
      total = S::Add(total, weight);
    }
    OpsOn<S>::Scale(scores, Row::kFactor / S::Sum(total), token_count_, scores);
  }

  // out[h] += sum of weight * V over tokens [begin, end) of one tile.
  template <int kHeadCount>
  void AddValues(uint32_t first_head, uint32_t begin, uint32_t end) {
    const size_t row_size_bytes = size_t{args_.head_dim} * Row::kSizeBytes;
    const std::byte* values = KvRow(args_.v_offset_bytes, begin);
    const float* weights = Scores(first_head) + (begin - args_.token_begin);
    float* out = args_.out + size_t{first_head} * args_.head_dim;
    for (uint32_t i = 0; i < args_.head_dim; i += 8, values += 8 * Row::kSizeBytes, out += 8) {
      FloatPair<S> sums[kHeadCount];
      for (auto& sum : sums) sum = {{S::SplatF(0), S::SplatF(0)}};
      const std::byte* v = values;
      for (uint32_t token = 0; token < end - begin; ++token, v += row_size_bytes) {
        const FloatPair<S> value = Row::Load(v);
#pragma clang loop unroll(full)
        for (int h = 0; h < kHeadCount; ++h) {
          const F weight =
              S::LoadSplatF(weights + static_cast<uint32_t>(h) * size_t{score_stride_} + token);
          sums[h].half[0] = S::Fma(weight, value.half[0], sums[h].half[0]);
          sums[h].half[1] = S::Fma(weight, value.half[1], sums[h].half[1]);
        }
      }
      const F factor = S::SplatF(Row::kFactor);
      for (int h = 0; h < kHeadCount; ++h) {
        float* to = out + static_cast<uint32_t>(h) * size_t{args_.head_dim};
        S::StoreF(to, S::Fma(sums[h].half[0], factor, S::LoadF(to)));
        S::StoreF(to + 4, S::Fma(sums[h].half[1], factor, S::LoadF(to + 4)));
      }
    }
  }

  const AttentionArgs& args_;
  const uint32_t token_count_;
  const uint32_t score_stride_;
  float* const q_;
  float* const scores_;
};

}  // namespace nonstop::cpu
