// Attention of a tile of query rows (tokens x heads of one KV head) over a vector target S. It goes
// over the cache in tiles of 64 tokens, which are converted to f32 once (K transposed) and then
// meet all rows as two small matrix products, with a running softmax in between (Milakov &
// Gimelshein 2018; Dao et al. 2022).
#pragma once

#include <algorithm>
#include <cmath>

#include "cpu/generic/attention_kv.h"
#include "cpu/generic/ops.h"

namespace nonstop::cpu {

// c[r, j] (+)= sum_k a[r, k] * b[k, j], for `row_count` rows and columns in vectors of 8.
template <class S>
class SmallProduct {
 public:
  using F = typename S::F;
  struct Shape {
    uint32_t inner_count;   // k
    uint32_t column_count;  // multiple of 8
    size_t a_stride, b_stride, c_stride;
  };

  [[gnu::noinline]] static void Run(const Shape& shape, uint32_t row_count, const float* a,
                                    const float* b, bool adds, float* c) {
    uint32_t row = 0;
    for (; row + 4 <= row_count; row += 4) RunRows<4>(shape, row, a, b, adds, c);
    for (; row < row_count; ++row) RunRows<1>(shape, row, a, b, adds, c);
  }

 private:
  template <uint32_t kRowCount>
  static void RunRows(const Shape& shape, uint32_t row, const float* a, const float* b, bool adds,
                      float* c) {
    a += row * shape.a_stride;
    c += row * shape.c_stride;
    for (uint32_t j = 0; j < shape.column_count; j += 8) {
      FloatPair<S> sums[kRowCount];
      for (uint32_t r = 0; r < kRowCount; ++r) {
        const float* at = c + r * shape.c_stride + j;
        sums[r] = {{S::SplatF(0), S::SplatF(0)}};
        if (adds) sums[r] = {{S::LoadF(at), S::LoadF(at + 4)}};
      }
      const float* column = b + j;
      for (uint32_t k = 0; k < shape.inner_count; ++k, column += shape.b_stride) {
        const F b0 = S::LoadF(column), b1 = S::LoadF(column + 4);
#pragma clang loop unroll(full)
        for (uint32_t r = 0; r < kRowCount; ++r) {
          const F value = S::LoadSplatF(a + r * shape.a_stride + k);
          sums[r].half[0] = S::Fma(value, b0, sums[r].half[0]);
          sums[r].half[1] = S::Fma(value, b1, sums[r].half[1]);
        }
      }
      for (uint32_t r = 0; r < kRowCount; ++r) {
        S::StoreF(c + r * shape.c_stride + j, sums[r].half[0]);
        S::StoreF(c + r * shape.c_stride + j + 4, sums[r].half[1]);
      }
    }
  }
};

template <class S, class Row>
class AttentionOn {
 public:
  using F = typename S::F;

  explicit AttentionOn(const AttentionArgs& args)
      : args_(args),
        dim_(args.head_dim),
        row_count_(args.token_count * args.query_head_count),
        end_(args.position + args.token_count) {
    float* at = args.scratch;
    const auto take = [&](size_t count) {
      float* taken = at;
      at += count;
      return taken;
    };
    q_ = take(size_t{row_count_} * dim_);
    sums_ = take(size_t{row_count_} * dim_);
    scores_ = take(size_t{row_count_} * kKvTileTokens);
    keys_ = take(size_t{dim_} * kKvTileTokens);
    values_ = take(size_t{dim_} * kKvTileTokens);
    states_ = reinterpret_cast<RowState*>(take(size_t{row_count_} * 2));
  }

  static size_t ScratchFloats(uint32_t row_count, uint32_t head_dim) {
    return size_t{row_count} * (2 * size_t{head_dim} + kKvTileTokens + 2) +
           2 * size_t{head_dim} * kKvTileTokens;
  }

  void Run() {
    for (uint32_t row = 0; row < row_count_; ++row) {
      OpsOn<S>::Scale(args_.q + TokenOf(row) * args_.q_stride + HeadOf(row) * dim_, args_.scale,
                      dim_, q_ + size_t{row} * dim_);
      states_[row] = {-INFINITY, 0};
    }
    std::fill_n(sums_, size_t{row_count_} * dim_, 0.0f);
    const uint32_t first = args_.FirstSeenBy(0) / kKvTileTokens * kKvTileTokens;
    for (uint32_t begin = first; begin < end_; begin += kKvTileTokens) AddTile(begin);
    for (uint32_t row = 0; row < row_count_; ++row) {
      OpsOn<S>::Scale(sums_ + size_t{row} * dim_, 1.0f / states_[row].total, dim_,
                      args_.out + TokenOf(row) * args_.out_stride + HeadOf(row) * dim_);
    }
  }

 private:
  struct RowState {
    float largest;  // score
    float total;    // of exp(score - largest)
  };

  size_t TokenOf(uint32_t row) const { return row / args_.query_head_count; }
  size_t HeadOf(uint32_t row) const { return row % args_.query_head_count; }

  void AddTile(uint32_t begin) {
    const uint32_t count = std::min(kKvTileTokens, end_ - begin);
    const uint32_t padded_count = (count + 7) / 8 * 8;
    LoadKeys(begin, count, padded_count);
    LoadValues(begin, count);
    SmallProduct<S>::Run({dim_, padded_count, dim_, kKvTileTokens, kKvTileTokens}, row_count_, q_,
                         keys_, false, scores_);
    for (uint32_t row = 0; row < row_count_; ++row) ScoresToWeights(row, begin, count);
    SmallProduct<S>::Run({count, dim_, kKvTileTokens, dim_, dim_}, row_count_, scores_, values_,
                         true, sums_);
  }

  // keys_[i, k] = element i of token k; zero past the last token.
  void LoadKeys(uint32_t begin, uint32_t count, uint32_t padded_count) {
    const size_t row_size_bytes = size_t{dim_} * Row::kSizeBytes;
    const std::byte* keys = KvRowOf<Row>(args_, args_.k_offset_bytes, begin);
    const F factor = S::SplatF(Row::kFactor * Row::kFactor);
    for (uint32_t k = 0; k < padded_count; k += 4) {
      for (uint32_t i = 0; i < dim_; i += 8) {
        F low[4], high[4];
        for (uint32_t j = 0; j < 4; ++j) {
          FloatPair<S> key = {{S::SplatF(0), S::SplatF(0)}};
          if (k + j < count) key = Row::Load(keys + (k + j) * row_size_bytes + i * Row::kSizeBytes);
          low[j] = S::Mul(key.half[0], factor);
          high[j] = S::Mul(key.half[1], factor);
        }
        S::Transpose(low);
        S::Transpose(high);
        float* to = keys_ + size_t{i} * kKvTileTokens + k;
        for (uint32_t j = 0; j < 4; ++j) {
          S::StoreF(to + j * kKvTileTokens, low[j]);
          S::StoreF(to + (j + 4) * kKvTileTokens, high[j]);
        }
      }
    }
  }

  // values_[k, i] = element i of token k: the rows of a tile follow each other.
  void LoadValues(uint32_t begin, uint32_t count) {
    const std::byte* values = KvRowOf<Row>(args_, args_.v_offset_bytes, begin);
    const F factor = S::SplatF(Row::kFactor * Row::kFactor);
    for (size_t i = 0; i < size_t{count} * dim_; i += 8) {
      const FloatPair<S> value = Row::Load(values + i * Row::kSizeBytes);
      S::StoreF(values_ + i, S::Mul(value.half[0], factor));
      S::StoreF(values_ + i + 4, S::Mul(value.half[1], factor));
    }
  }

  // Zero for tokens that the row does not see.
  void ScoresToWeights(uint32_t row, uint32_t tile_begin, uint32_t tile_count) {
    const auto token = static_cast<uint32_t>(TokenOf(row));
    const uint32_t seen_begin = std::max(args_.FirstSeenBy(token), tile_begin) - tile_begin;
    const uint32_t seen_end =
        std::min(args_.position + token + 1, tile_begin + tile_count) - tile_begin;
    float* weights = scores_ + size_t{row} * kKvTileTokens;
    // Unsigned: a tile that lies behind or before what is seen gives begin >= end.
    if (args_.position + token + 1 <= tile_begin || seen_begin >= seen_end) {
      std::fill_n(weights, tile_count, 0.0f);
      return;
    }
    std::fill_n(weights, seen_begin, 0.0f);
    std::fill(weights + seen_end, weights + tile_count, 0.0f);
    weights += seen_begin;
    const uint32_t count = seen_end - seen_begin;
    if (args_.soft_cap != 0) OpsOn<S>::SoftCap(weights, args_.soft_cap, count, weights);
    RowState& state = states_[row];
    const float largest = std::max(state.largest, OpsOn<S>::Largest(weights, count));
    const float factor = OpsOn<S>::ExpOf(state.largest - largest);
    if (factor != 1.0f) {
      OpsOn<S>::Scale(sums_ + size_t{row} * dim_, factor, dim_, sums_ + size_t{row} * dim_);
    }
    state.total = state.total * factor + OpsOn<S>::ExpAndSum(weights, largest, count);
    state.largest = largest;
  }

  const AttentionArgs& args_;
  const uint32_t dim_, row_count_, end_;
  float *q_, *sums_, *scores_, *keys_, *values_;
  RowState* states_;
};

}  // namespace nonstop::cpu
