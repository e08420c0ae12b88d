// Attention on the GPU against plain loops in f64: GQA, windows, caps, both cache types, odd sizes
// of heads, several sequences, page boundaries, contexts in one range and in many.
#include <algorithm>
#include <cmath>

#include "base/bytes.h"
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

// What is expected of some numbers, and how far off they may be: f32 products of q and k are off by
// their size times 2^-22, weights by that and by exp's (3 + 2 |x|) units.
struct Expected {
  std::vector<float> values;
  std::vector<float> tolerances;

  void Add(double value, double tolerance) {
    values.push_back(static_cast<float>(value));
    tolerances.push_back(static_cast<float>(tolerance));
  }
};

// One head of a row, over the tokens from `begin` to `end`: their scores, then what they make of V.
class Attended {
 public:
  Attended(const Shape& shape, const CaseBatch& batch, const CaseCache& cache, uint32_t row,
           uint32_t head, const float* q, uint32_t begin, uint32_t end)
      : sums_(shape.head_dim, 0.0) {
    const uint32_t sequence = batch.rows()[row].sequence;
    const uint32_t kv_head = head / (shape.head_count / shape.kv_head_count);
    const auto load = [&](bool is_value, uint32_t token, uint32_t i) {
      return static_cast<double>(
          cache.Load(batch.pages(sequence)[token / 256], is_value, kv_head, token, i));
    };
    std::vector<double> scores;
    for (uint32_t token = begin; token < end; ++token) {
      double sum = 0, size = 0;
      for (uint32_t i = 0; i < shape.head_dim; ++i) {
        const double product = static_cast<double>(q[i]) * load(false, token, i);
        sum += product;
        size += std::abs(product);
      }
      sum *= static_cast<double>(shape.scale());
      score_error_ = std::max(score_error_, size * static_cast<double>(shape.scale()) * 0x1p-22);
      const double cap = static_cast<double>(shape.soft_cap);
      if (shape.soft_cap != 0) sum = cap * ExactTanh(sum / cap);
      scores.push_back(sum);
      largest_ = std::max(largest_, sum);
    }
    for (uint32_t token = begin; token < end; ++token) {
      const double weight = ExactExp(scores[token - begin] - largest_);
      weight_ += weight;
      for (uint32_t i = 0; i < shape.head_dim; ++i) sums_[i] += weight * load(true, token, i);
    }
  }

  // Relative, of a weight: V's values are at most 1.
  double error() const { return 4 * (score_error_ + 3 * 0x1p-24 + 4 * score_error_) + 0x1p-22; }
  void ExpectResult(Expected* out) const {
    for (double sum : sums_) out->Add(sum / weight_, error());
  }
  void ExpectSums(Expected* out) const {
    for (double sum : sums_) out->Add(sum, error() * weight_);
  }
  void ExpectStats(Expected* out) const {
    out->Add(largest_, 4 * score_error_ + std::abs(largest_) * 0x1p-20);
    out->Add(weight_, error() * weight_);
  }

 private:
  std::vector<double> sums_;
  double largest_ = -1e30, weight_ = 0, score_error_ = 0;
};

uint32_t FirstSeen(const Shape& shape, uint32_t position) {
  return shape.window != 0 && position + 1 > shape.window ? position + 1 - shape.window : 0;
}

const float* QueryOf(const Shape& shape, const std::vector<float>& q, uint32_t row, uint32_t head) {
  return &q[(size_t{row} * shape.head_count + head) * shape.head_dim];
}

Expected AttendAll(const Shape& shape, const CaseBatch& batch, const CaseCache& cache,
                   const std::vector<float>& q) {
  Expected expected;
  for (uint32_t row = 0; row < batch.row_count(); ++row) {
    const uint32_t position = batch.rows()[row].position;
    for (uint32_t head = 0; head < shape.head_count; ++head) {
      Attended(shape, batch, cache, row, head, QueryOf(shape, q, row, head),
               FirstSeen(shape, position), position + 1)
          .ExpectResult(&expected);
    }
  }
  return expected;
}

// The parts of all rows and ranges; of ranges that there are not, what was there.
CallOperand ExpectParts(const Shape& shape, const CaseBatch& batch, const CaseCache& cache,
                        const std::vector<float>& q, const AttentionParts& parts,
                        float tolerance_factor = 1.0f) {
  std::vector<float> values(parts.element_count(), kSentinel);
  std::vector<float> tolerances(values.size(), 0.0f);
  const auto put = [&](size_t at, const Expected& expected) {
    std::copy(expected.values.begin(), expected.values.end(),
              values.begin() + static_cast<ptrdiff_t>(at));
    for (size_t i = 0; i < expected.tolerances.size(); ++i) {
      tolerances[at + i] = expected.tolerances[i] * tolerance_factor;
    }
  };
  for (uint32_t row = 0; row < batch.row_count(); ++row) {
    const uint32_t end = batch.rows()[row].position + 1;
    const uint32_t begin = FirstSeen(shape, end - 1);
    const uint32_t step = AttentionParts::kRangeStep;
    const uint32_t tokens = DivideRoundUp(end - begin, parts.range_count * step) * step;
    for (uint32_t range = 0; begin + range * tokens < end; ++range) {
      for (uint32_t head = 0; head < shape.head_count; ++head) {
        const uint32_t first = begin + range * tokens;
        const Attended attended(shape, batch, cache, row, head, QueryOf(shape, q, row, head), first,
                                std::min(first + tokens, end));
        const size_t part = (size_t{row} * parts.range_count + range) * shape.head_count + head;
        Expected sums, stats;
        attended.ExpectSums(&sums);
        attended.ExpectStats(&stats);
        put(part * shape.head_dim, sums);
        put(parts.stats_offset() + 2 * part, stats);
      }
    }
  }
  return ExpectOut(values, tolerances);
}

void AddDecode(CaseWriter& writer, const Shape& shape, const CaseBatch& batch) {
  Lcg random{shape.head_dim + batch.row_count()};
  CaseCache cache(shape.head_dim, shape.kv_head_count, shape.is_f32, batch.page_count());
  cache.Fill(random);
  const std::vector<float> q =
      RandomFloats(random, size_t{batch.row_count()} * shape.head_count * shape.head_dim, 4.0f);
  const AttentionOp op = MakeOp(shape, batch, cache);
  const uint32_t row_limit = batch.row_count() == 1 ? 1 : kMatvecRowLimit;
  const KernelCall call = MakeDecodeAttentionCall(op, row_limit);
  AddCallCase(writer,
              Format("attention decode %s, %u rows from %u", shape.name().c_str(),
                     batch.row_count(), batch.rows()[0].position),
              call, batch.row_count(),
              {{KernelBinding::kActivationsIn, CaseInput(InArena(q))},
               ExpectParts(shape, batch, cache, q, PartsOf(op, row_limit)),
               {KernelBinding::kCacheIn4, CaseInput(cache.bytes())},
               batch.operand()});
}

struct PromptRows {
  uint32_t position;
  uint32_t row_count;
};

// The rows of some prompts; `prompt_limit` may be more. One limit for many cases is one kernel,
// which lavapipe compiles for seconds.
void AddPrefill(CaseWriter& writer, const Shape& shape, const std::vector<PromptRows>& prompts,
                uint32_t prompt_limit = 4) {
  std::vector<BatchRow> rows;
  std::string text;
  for (uint32_t sequence = 0; sequence < prompts.size(); ++sequence) {
    const auto [position, count] = prompts[sequence];
    for (uint32_t i = 0; i < count; ++i) rows.push_back({0, position + i, sequence});
    text += Format("%s%u rows from %u", sequence == 0 ? "" : ", ", count, position);
  }
  const auto row_count = static_cast<uint32_t>(rows.size());
  const CaseBatch batch(rows, {});
  Lcg random{shape.head_dim + prompts[0].position};
  CaseCache cache(shape.head_dim, shape.kv_head_count, shape.is_f32, batch.page_count());
  cache.Fill(random);
  const std::vector<float> q =
      RandomFloats(random, size_t{row_count} * shape.head_count * shape.head_dim, 4.0f);
  const KernelCall call = MakePrefillAttentionCall(MakeOp(shape, batch, cache), prompt_limit);
  const Expected expected = AttendAll(shape, batch, cache, q);
  AddCallCase(writer, Format("attention prefill %s, %s", shape.name().c_str(), text.c_str()), call,
              row_count,
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
  const auto floats = [](const CaseCache& from) {
    std::vector<float> values(from.words());
    std::memcpy(values.data(), from.bytes().data(), 4 * values.size());
    return values;
  };
  for (size_t i = 0; i < cache_tolerances.size(); ++i) {
    if (cache.bytes()[i] != before.bytes()[i]) cache_tolerances[i] = shape.is_f32 ? 0x1p-19f : 0;
  }
  AddCallCase(writer,
              Format("attention with rope_kv %s%s, %u rows from %u", shape.name().c_str(),
                     has_norms ? " normed" : "", batch.row_count(), batch.rows()[0].position),
              MakeDecodeAttentionCall(op, kMatvecRowLimit), batch.row_count(),
              {{KernelBinding::kActivationsIn, CaseInput(InArena(rows))},
               // Norm and rotation add some units of the last place of q and k, which are below 4.
               ExpectParts(shape, batch, cache, q, PartsOf(op, kMatvecRowLimit), 4.0f),
               {KernelBinding::kVectors, CaseInput(vectors)},
               {KernelBinding::kCacheOut4,
                shape.is_f32 ? CaseOutput(floats(before), floats(cache), cache_tolerances)
                             : CaseOutput(before.bytes(), cache.bytes())},
               batch.operand()});
}

// Parts as they are, and what they make together.
void AddCombine(CaseWriter& writer, const Shape& shape, const CaseBatch& batch) {
  Lcg random{shape.head_dim + 3};
  CaseCache cache(shape.head_dim, shape.kv_head_count, shape.is_f32, batch.page_count());
  cache.Fill(random);
  const std::vector<float> q =
      RandomFloats(random, size_t{batch.row_count()} * shape.head_count * shape.head_dim, 4.0f);
  const AttentionParts split = PartsOf(MakeOp(shape, batch, cache), kMatvecRowLimit);
  const CallOperand parts = ExpectParts(shape, batch, cache, q, split);
  std::vector<std::byte> exact(parts.bytes.expected.begin() + kArenaMargin * sizeof(float),
                               parts.bytes.expected.end());
  const Expected expected = AttendAll(shape, batch, cache, q);
  AddCallCase(writer,
              Format("attention combine %s, %u rows", shape.name().c_str(), batch.row_count()),
              MakeCombineCall(split, {0, 0}, {1, kArenaMargin}, batch.state()), batch.row_count(),
              {{KernelBinding::kActivationsIn, {.bytes = std::move(exact)}},
               ExpectOut(expected.values, expected.tolerances),
               batch.operand()});
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
    AddPrefill(writer, shape, {{0, 1}});
    AddPrefill(writer, shape, {{0, 37}});
    AddPrefill(writer, shape, {{250, 13}});
    AddPrefill(writer, shape, {{509, 70}});
    AddPrefill(writer, shape, {{0, 21}, {250, 13}, {0, 1}, {40, 35}});
  }
  AddPrefill(writer, kShapes[0], {{250, 13}}, 1);
  const CaseBatch two({{0, 300, 0}, {0, 511, 1}}, {});
  AddCombine(writer, {9, 3, 64}, two);
  AddCombine(writer, {3, 1, 6, true, 40}, two);
  // Longer than RANGES tiles of 64 tokens: several tiles a range.
  AddDecode(writer, kShapes[0], CaseBatch({{0, 2500, 0}}, {}));
  const CaseBatch three({{0, 300, 0}, {0, 5, 1}, {0, 511, 2}}, {});
  AddFused(writer, {4, 1, 256, true, 40}, three, true, true);
  AddFused(writer, {6, 2, 64, true}, three, true, false);
  AddFused(writer, {4, 2, 128, true}, CaseBatch({{0, 0, 0}}, {}), false, true);
}

}  // namespace nonstop
