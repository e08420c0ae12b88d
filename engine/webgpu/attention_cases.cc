// Attention on the GPU against plain loops in f64: GQA, windows, caps, both cache types, odd sizes
// of heads, several sequences, page boundaries, contexts in one range and in many.
#include <cmath>

#include "base/exact_math.h"
#include "base/format.h"
#include "cpu/reference/ops.h"
#include "webgpu/attention.h"
#include "webgpu/call_cases.h"

namespace nonstop {
namespace {

struct Shape {
  uint32_t head_count;
  uint32_t kv_head_count;
  uint32_t head_dim;
  bool is_f32 = false;
  uint32_t window = 0;
  float soft_cap = 0.0f;

  std::string name() const {
    return Format("%ux%ux%u%s w%u c%g", head_count, kv_head_count, head_dim, is_f32 ? " f32" : "",
                  window, static_cast<double>(soft_cap));
  }
  float scale() const { return 1.0f / std::sqrt(static_cast<float>(head_dim)); }
};

AttentionOp MakeOp(const Shape& shape, const CaseBatch& batch, const CaseCache& cache) {
  return {.q = {0, kArenaMargin},
          .y = {1, kArenaMargin},
          .head_count = shape.head_count,
          .cache = cache.place(),
          .scale = shape.scale(),
          .soft_cap = shape.soft_cap,
          .window = shape.window,
          .state = batch.state(),
          .rows = {}};
}

// One row's heads, and how far off they may be: f32 products of q and k are off by their size times
// 2^-22, weights by that and by exp's (3 + 2 |x|) units.
struct Expected {
  std::vector<float> values;
  std::vector<float> tolerances;
};

void Attend(const Shape& shape, const CaseBatch& batch, const CaseCache& cache, uint32_t row,
            uint32_t head, const float* q, Expected* out) {
  const BatchRow& at = batch.rows()[row];
  const uint32_t kv_head = head / (shape.head_count / shape.kv_head_count);
  const uint32_t end = at.position + 1;
  const uint32_t begin = shape.window != 0 && end > shape.window ? end - shape.window : 0;
  const auto load = [&](bool is_value, uint32_t token, uint32_t i) {
    return static_cast<double>(
        cache.Load(batch.pages(at.sequence)[token / 256], is_value, kv_head, token, i));
  };
  std::vector<double> weights;
  double largest = -1e30, product_size = 0;
  for (uint32_t token = begin; token < end; ++token) {
    double sum = 0, size = 0;
    for (uint32_t i = 0; i < shape.head_dim; ++i) {
      const double product = static_cast<double>(q[i]) * load(false, token, i);
      sum += product;
      size += std::abs(product);
    }
    sum *= static_cast<double>(shape.scale());
    product_size = std::max(product_size, size * static_cast<double>(shape.scale()));
    if (shape.soft_cap != 0) {
      sum = static_cast<double>(shape.soft_cap) *
            ExactTanh(sum / static_cast<double>(shape.soft_cap));
    }
    weights.push_back(sum);
    largest = std::max(largest, sum);
  }
  double total = 0;
  for (double& weight : weights) total += weight = ExactExp(weight - largest);
  for (uint32_t i = 0; i < shape.head_dim; ++i) {
    double sum = 0;
    for (uint32_t token = begin; token < end; ++token) {
      sum += weights[token - begin] * load(true, token, i);
    }
    out->values.push_back(static_cast<float>(sum / total));
    out->tolerances.push_back(static_cast<float>(
        4 * (product_size * 0x1p-22 + (3 + 4 * product_size) * 0x1p-24) + 0x1p-22));
  }
}

Expected AttendAll(const Shape& shape, const CaseBatch& batch, const CaseCache& cache,
                   const std::vector<float>& q) {
  Expected expected;
  for (uint32_t row = 0; row < batch.row_count(); ++row) {
    for (uint32_t head = 0; head < shape.head_count; ++head) {
      const size_t at = (size_t{row} * shape.head_count + head) * shape.head_dim;
      Attend(shape, batch, cache, row, head, &q[at], &expected);
    }
  }
  return expected;
}

void AddDecode(CaseWriter& writer, const Shape& shape, const CaseBatch& batch) {
  Lcg random{shape.head_dim + batch.row_count()};
  CaseCache cache(shape.head_dim, shape.kv_head_count, shape.is_f32, batch.page_count());
  cache.Fill(random);
  const std::vector<float> q =
      RandomFloats(random, size_t{batch.row_count()} * shape.head_count * shape.head_dim, 4.0f);
  const KernelCall call = MakeDecodeAttentionCall(MakeOp(shape, batch, cache), kMatvecRowLimit);
  const Expected expected = AttendAll(shape, batch, cache, q);
  // The counters are zero again after the dispatch; the partials behind them are not looked at.
  const std::vector<uint32_t> partials(AttentionPartialWords(kMatvecRowLimit, shape.head_count,
                                                             shape.kv_head_count, shape.head_dim));
  AddCallCase(
      writer,
      Format("attention decode %s, %u rows from %u", shape.name().c_str(), batch.row_count(),
             batch.rows()[0].position),
      call, batch.row_count(),
      {{KernelBinding::kActivationsIn, CaseInput(InArena(q))},
       ExpectOut(expected.values, expected.tolerances),
       {KernelBinding::kCacheIn4, CaseInput(cache.bytes())},
       batch.operand(),
       {KernelBinding::kPartials, {.access = GpuAccess::kReadWrite, .bytes = BytesOf(partials)}}});
}

void AddPrefill(CaseWriter& writer, const Shape& shape, uint32_t position, uint32_t row_count) {
  std::vector<BatchRow> rows;
  for (uint32_t i = 0; i < row_count; ++i) rows.push_back({0, position + i, 0});
  const CaseBatch batch(rows, {});
  Lcg random{shape.head_dim + position};
  CaseCache cache(shape.head_dim, shape.kv_head_count, shape.is_f32, batch.page_count());
  cache.Fill(random);
  const std::vector<float> q =
      RandomFloats(random, size_t{row_count} * shape.head_count * shape.head_dim, 4.0f);
  const KernelCall call = MakePrefillAttentionCall(MakeOp(shape, batch, cache));
  const Expected expected = AttendAll(shape, batch, cache, q);
  AddCallCase(
      writer,
      Format("attention prefill %s, %u rows from %u", shape.name().c_str(), row_count, position),
      call, row_count,
      {{KernelBinding::kActivationsIn, CaseInput(InArena(q))},
       ExpectOut(expected.values, expected.tolerances),
       {KernelBinding::kCacheIn4, CaseInput(cache.bytes())},
       batch.operand()});
}

constexpr Shape kShapes[] = {
    {9, 3, 64},
    {4, 1, 256, false, 40},
    {14, 2, 64, true, 0, 20.0f},  // seven query heads to a KV head: two tiles
    {4, 2, 96, false, 300, 50.0f},
    {2, 1, 20, true},
    {3, 1, 512},
    {6, 6, 8, false, 7},
};

// The newest token's k and v come with q: see attention_rope.wgsl.
void AddFused(CaseWriter& writer, const Shape& shape, const CaseBatch& batch, bool has_norms,
              bool halves) {
  const uint32_t dim = shape.head_dim;
  const uint32_t unit_count = shape.head_count + 2 * shape.kv_head_count;
  Lcg random{dim + 7};
  CaseCache cache(dim, shape.kv_head_count, shape.is_f32, batch.page_count());
  cache.Fill(random);
  const CaseCache before = cache;
  const uint32_t pair_count = dim / 4;  // half of a head is rotated
  const std::vector<float> frequencies = RandomFloats(random, pair_count);
  const std::vector<float> rows =
      RandomFloats(random, size_t{batch.row_count()} * unit_count * dim, 2.0f);
  std::vector<float> vectors = EncodeFrequencies(frequencies);
  const auto norm_at = static_cast<uint32_t>(vectors.size());
  const std::vector<float> norms = RandomFloats(random, 2 * size_t{dim});
  vectors.insert(vectors.end(), norms.begin(), norms.end());

  AttentionOp op = MakeOp(shape, batch, cache);
  op.rows = HeadRows{.x = {0, kArenaMargin},
                     .head_count = shape.head_count,
                     .rotation = {.rotated_dim = 2 * pair_count,
                                  .halves = halves,
                                  .frequencies = 0,
                                  .magnitude = 1.25f},
                     .has_norms = has_norms,
                     .q_norm = norm_at,
                     .k_norm = norm_at + dim,
                     .eps = 1e-6f};
  std::vector<float> q;
  std::vector<float> cache_tolerances(before.words(), 0.0f);
  for (uint32_t row = 0; row < batch.row_count(); ++row) {
    const BatchRow& at = batch.rows()[row];
    std::vector<float> cos_sin(2 * size_t{pair_count});
    cpu::reference::RopeTable(at.position, frequencies.data(), pair_count, 1.25f, cos_sin.data());
    for (uint32_t unit = 0; unit < unit_count; ++unit) {
      const float* x = &rows[(size_t{row} * unit_count + unit) * dim];
      std::vector<float> head(x, x + dim);
      const bool is_query = unit < shape.head_count;
      const bool is_value = unit >= shape.head_count + shape.kv_head_count;
      if (!is_value) {
        if (has_norms) {
          cpu::reference::RmsNorm(x, &norms[is_query ? 0 : dim], dim, 1e-6f, head.data());
        }
        cpu::reference::Rope(head.data(), 1, dim, cos_sin.data(), pair_count,
                             halves ? cpu::RopeStyle::kHalves : cpu::RopeStyle::kAdjacent);
      }
      if (is_query) {
        q.insert(q.end(), head.begin(), head.end());
      } else {
        cache.Store(batch.pages(at.sequence)[at.position / 256], is_value,
                    (unit - shape.head_count) % shape.kv_head_count, at.position, head.data());
      }
    }
  }
  Expected expected = AttendAll(shape, batch, cache, q);
  // What norm and rotation add: some units of the last place of q and k, which are below 4.
  for (float& tolerance : expected.tolerances) tolerance *= 4;
  const auto floats = [](const CaseCache& from) {
    std::vector<float> values(from.words());
    std::memcpy(values.data(), from.bytes().data(), 4 * values.size());
    return values;
  };
  for (size_t i = 0; i < cache_tolerances.size(); ++i) {
    if (cache.bytes()[i] != before.bytes()[i]) cache_tolerances[i] = shape.is_f32 ? 0x1p-19f : 0;
  }
  const std::vector<uint32_t> partials(AttentionPartialWords(kMatvecRowLimit, shape.head_count,
                                                             shape.kv_head_count, shape.head_dim));
  AddCallCase(
      writer,
      Format("attention with rope_kv %s%s, %u rows from %u", shape.name().c_str(),
             has_norms ? " normed" : "", batch.row_count(), batch.rows()[0].position),
      MakeDecodeAttentionCall(op, kMatvecRowLimit), batch.row_count(),
      {{KernelBinding::kActivationsIn, CaseInput(InArena(rows))},
       ExpectOut(expected.values, expected.tolerances),
       {KernelBinding::kVectors, CaseInput(vectors)},
       {KernelBinding::kCacheOut4, shape.is_f32
                                       ? CaseOutput(floats(before), floats(cache), cache_tolerances)
                                       : CaseOutput(before.bytes(), cache.bytes())},
       batch.operand(),
       {KernelBinding::kPartials, {.access = GpuAccess::kReadWrite, .bytes = BytesOf(partials)}}});
}

}  // namespace

void AddAttentionCases(CaseWriter& writer) {
  for (const Shape& shape : kShapes) {
    for (uint32_t position : {0u, 31u, 32u, 255u, 256u}) {
      AddDecode(writer, shape, CaseBatch({{0, position, 0}}, {}));
    }
    AddDecode(writer, shape, CaseBatch({{0, 300, 0}, {0, 5, 1}, {0, 511, 2}}, {}));
    AddDecode(writer, shape,
              CaseBatch({{0, 0, 0},
                         {0, 64, 1},
                         {0, 700, 2},
                         {0, 65, 3},
                         {0, 1, 4},
                         {0, 9, 5},
                         {0, 63, 6},
                         {0, 257, 7}},
                        {}));
    AddPrefill(writer, shape, 0, 1);
    AddPrefill(writer, shape, 0, 37);
    AddPrefill(writer, shape, 250, 13);
    AddPrefill(writer, shape, 509, 70);
  }
  // Longer than RANGES tiles of 64 tokens: several tiles a range.
  AddDecode(writer, kShapes[0], CaseBatch({{0, 2500, 0}}, {}));
  const CaseBatch three({{0, 300, 0}, {0, 5, 1}, {0, 511, 2}}, {});
  AddFused(writer, {4, 1, 256, true, 40}, three, true, true);
  AddFused(writer, {6, 2, 64, true}, three, true, false);
  AddFused(writer, {4, 2, 128, true}, CaseBatch({{0, 0, 0}}, {}), false, true);
}

}  // namespace nonstop
