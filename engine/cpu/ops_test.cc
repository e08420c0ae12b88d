// Vector operations: the reference against values worked out elsewhere, every vector target of the
// build against the reference.
#include "cpu/ops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/half.h"
#include "cpu/generic/attention.h"
#include "cpu/generic/attention_partial.h"
#include "cpu/generic/ops.h"
#include "cpu/matmul_testing.h"
#include "cpu/reference/ops.h"

namespace nonstop::cpu {
namespace {

constexpr float kSentinel = -12345.5f;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct OpsTarget {
  const char* name;
  decltype(&RmsNorm) rms_norm;
  decltype(&SiluMul) silu_mul, gelu_mul, add;
  decltype(&SoftCap) scale, soft_cap;
  void (*attention)(const AttentionArgs&);
  bool takes_partials = false;  // one token, f16
};

template <class S>
void AttentionOf(const AttentionArgs& args) {
  if (args.kv_type == KvType::kF16) {
    AttentionOn<S, KvRowF16<S>>(args).Run();
  } else {
    AttentionOn<S, KvRowF32<S>>(args).Run();
  }
}

// In ranges of 90 tokens, the last first.
template <class S>
void AttentionInRangesOf(const AttentionArgs& args) {
  constexpr uint32_t kRange = 90;
  const uint32_t begin = args.FirstSeenBy(0), end = args.position + 1;
  const uint32_t range_count = DivideRoundUp(end - begin, kRange);
  const size_t stride = args.query_head_count * size_t{args.head_dim + kPartialExtra};
  std::vector<float> partials(range_count * stride + 1, kSentinel);
  for (uint32_t i = range_count; i-- > 0;) {
    PartialAttention<S>(args, begin + i * kRange, std::min(end, begin + (i + 1) * kRange),
                        partials.data() + i * stride)
        .Run();
  }
  EXPECT_EQ(partials.back(), kSentinel);
  MergePartialsOn<S>(args, partials.data(), range_count);
}

template <class S>
constexpr OpsTarget OpsTargetOf(bool takes_partials = false) {
  using Ops = OpsOn<S>;
  return {S::kName,      Ops::RmsNorm,
          Ops::SiluMul,  Ops::GeluMul,
          Ops::Add,      Ops::Scale,
          Ops::SoftCap,  takes_partials ? AttentionInRangesOf<S> : AttentionOf<S>,
          takes_partials};
}

constexpr OpsTarget kOpsTargets[] = {
    {"reference", reference::RmsNorm, reference::SiluMul, reference::GeluMul, reference::Add,
     reference::Scale, reference::SoftCap, reference::Attention},
    {"public", RmsNorm, SiluMul, GeluMul, Add, Scale, SoftCap, Attention},
    OpsTargetOf<vec::Scalar<false>>(),
    OpsTargetOf<vec::Native>(true),
#if defined(__wasm_simd128__)
    OpsTargetOf<vec::WasmSimd>(),
#endif
};

std::vector<float> RandomVector(uint32_t length, float limit, uint64_t seed) {
  TestRandom random(seed);
  std::vector<float> x(length);
  for (float& value : x) value = random.Uniform(-limit, limit);
  return x;
}

constexpr uint32_t kLengths[] = {1, 2, 3, 4, 5, 7, 15, 16, 17, 35, 576};

// Relative where values are large, absolute where they vanish.
void ExpectClose(double actual, double expected, double tolerance, const char* name) {
  EXPECT_NEAR(actual, expected, tolerance * std::fmax(std::fabs(expected), 1e-3)) << name;
}

TEST(OpsTest, KnownValues) {
  for (const OpsTarget& target : kOpsTargets) {
    // mean(x^2) = 12.5, so x / sqrt(12.5 + 3.5) = x / 4.
    const float x[] = {3, 4}, w[] = {1, 2};
    float y[2];
    target.rms_norm(x, w, 2, 3.5f, y);
    ExpectClose(y[0], 0.75, 1e-6, target.name);
    ExpectClose(y[1], 2.0, 1e-6, target.name);
    // silu(1) = 0.731058578630005, gelu_tanh(1) = 0.841191990607477 (PyTorch, approximate="tanh").
    const float gate[] = {1, -2}, up[] = {1, 10};
    target.silu_mul(gate, up, 2, y);
    ExpectClose(y[0], 0.731058578630005, 1e-6, target.name);
    ExpectClose(y[1], -2.38405844044235, 1e-6, target.name);
    target.gelu_mul(gate, up, 2, y);
    ExpectClose(y[0], 0.841191990607477, 1e-6, target.name);
    ExpectClose(y[1], -0.454022967973120, 3e-6, target.name);
    const float logits[] = {15, -600};
    target.soft_cap(logits, 30, 2, y);
    ExpectClose(y[0], 13.8635147177, 1e-6, target.name);
    ExpectClose(y[1], -30, 1e-6, target.name);
  }
}

TEST(OpsTest, EveryTargetEqualsTheFormulaOnOddLengths) {
  for (const OpsTarget& target : kOpsTargets) {
    for (uint32_t length : kLengths) {
      const auto a = RandomVector(length, 20, length), b = RandomVector(length, 2, length + 1);
      std::vector<float> y(length + 2, kSentinel);
      const auto check = [&](auto formula, double tolerance) {
        for (uint32_t i = 0; i < length; ++i) {
          ExpectClose(y[i], formula(double{a[i]}, double{b[i]}), tolerance, target.name);
        }
        EXPECT_EQ(y[length], kSentinel) << target.name << " length " << length;
        EXPECT_EQ(y[length + 1], kSentinel);
      };
      target.silu_mul(a.data(), b.data(), length, y.data());
      check([](double g, double u) { return g / (1 + std::exp(-g)) * u; }, 1e-6);
      target.gelu_mul(a.data(), b.data(), length, y.data());
      check(
          [](double g, double u) {
            const double inner = std::sqrt(2 / M_PI) * (g + 0.044715 * g * g * g);
            return 0.5 * g * (1 + std::tanh(inner)) * u;
          },
          1e-5);  // far left the result is e^-x of a large x
      target.add(a.data(), b.data(), length, y.data());
      check([](double u, double v) { return u + v; }, 2e-7);
      target.scale(a.data(), 1.7f, length, y.data());
      check([](double u, double) { return u * double{1.7f}; }, 2e-7);
      target.soft_cap(a.data(), 5, length, y.data());
      check([](double u, double) { return 5 * std::tanh(u / 5); }, 1e-6);
      target.rms_norm(a.data(), b.data(), length, 1e-5f, y.data());
      double squares = 0;
      for (float value : a) squares += double{value} * value;
      const double root = std::sqrt(squares / length + 1e-5);
      check([root](double u, double v) { return u / root * v; }, 1e-6);
    }
  }
}

TEST(OpsTest, OperationsInPlace) {
  for (const OpsTarget& target : kOpsTargets) {
    const auto a = RandomVector(13, 3, 1), b = RandomVector(13, 3, 2);
    std::vector<float> expected(13), y = a;
    target.rms_norm(a.data(), b.data(), 13, 1e-6f, expected.data());
    target.rms_norm(y.data(), b.data(), 13, 1e-6f, y.data());
    EXPECT_EQ(y, expected) << target.name;
    y = b;
    target.add(a.data(), b.data(), 13, expected.data());
    target.add(a.data(), y.data(), 13, y.data());
    EXPECT_EQ(y, expected) << target.name;
  }
}

TEST(OpsTest, ExpIsAccurateAndBounded) {
  using S = vec::Native;
  double worst = 0;
  for (double x = -86.9; x < 87.9; x += 0.0137) {
    float lanes[4];
    S::StoreF(lanes, Exp<S>(S::SplatF(static_cast<float>(x))));
    const double exact = std::exp(double{static_cast<float>(x)});
    worst = std::fmax(worst, std::fabs(lanes[2] / exact - 1));
  }
  EXPECT_LT(worst, 2.5e-7);
  for (float x : {-kInfinity, -1000.0f, 1000.0f, kInfinity}) {
    float lanes[4];
    S::StoreF(lanes, Exp<S>(S::SplatF(x)));
    EXPECT_TRUE(x < 0 ? lanes[0] < 2e-38f && lanes[0] >= 0 : lanes[0] > 1e38f) << x;
  }
  float lanes[4];
  S::StoreF(lanes, Exp<S>(S::SplatF(kNan)));
  EXPECT_TRUE(std::isnan(lanes[0]));
}

TEST(RopeTest, TableIsExactAtLargePositions) {
  const float frequencies[] = {1.0f, 0.1f};
  float table[4];
  RopeTable(131071, frequencies, 2, 1.0f, table);
  // cos and sin of 131071 and of 131071 * 0.1f (0.100000001490116...), from mpmath.
  EXPECT_NEAR(table[0], std::cos(131071.0L), 1e-6);
  EXPECT_NEAR(table[2], std::sin(131071.0L), 1e-6);
  EXPECT_NEAR(table[1], std::cos(131071.0L * 0.1f), 1e-6);
  EXPECT_NEAR(table[3], std::sin(131071.0L * 0.1f), 1e-6);
  RopeTable(3, frequencies, 2, 1.5f, table);
  EXPECT_NEAR(table[0], 1.5 * std::cos(3.0), 1e-6);
}

TEST(RopeTest, RotatesPairsOfEitherStyle) {
  // A quarter turn for pair 0, a half turn for pair 1; element 4 of each head is not rotated.
  const float table[] = {0, -1, 1, 0};
  for (const auto rope : {Rope, reference::Rope}) {
    std::vector<float> adjacent = {1, 2, 3, 4, 5, 10, 20, 30, 40, 50};
    rope(adjacent.data(), 2, 5, table, 2, RopeStyle::kAdjacent);
    EXPECT_EQ(adjacent, (std::vector<float>{-2, 1, -3, -4, 5, -20, 10, -30, -40, 50}));
    std::vector<float> halves = {1, 2, 3, 4, 5, 10, 20, 30, 40, 50};
    rope(halves.data(), 2, 5, table, 2, RopeStyle::kHalves);
    EXPECT_EQ(halves, (std::vector<float>{-3, -2, 1, -4, 5, -30, -20, 10, -40, 50}));
  }
}

TEST(RopeTest, EqualsTheReferenceForAnyNumberOfPairs) {
  for (uint32_t pair_count : {1u, 3u, 4u, 7u, 32u, 61u}) {
    for (RopeStyle style : {RopeStyle::kAdjacent, RopeStyle::kHalves}) {
      const uint32_t head_dim = 2 * pair_count + 3;
      const auto table = RandomVector(2 * pair_count, 1.0f, pair_count);
      auto x = RandomVector(3 * head_dim, 10.0f, 5), expected = x;
      Rope(x.data(), 3, head_dim, table.data(), pair_count, style);
      reference::Rope(expected.data(), 3, head_dim, table.data(), pair_count, style);
      EXPECT_EQ(x, expected) << pair_count << " pairs";
    }
  }
}

TEST(StoreKvTest, RoundsToHalfAndKeepsF32) {
  const float x[] = {1.0f, -0.1f, 70000.0f, 1e-7f};
  uint16_t halves[5] = {0, 0, 0, 0, 0xaaaa};
  StoreKv(x, 4, KvType::kF16, reinterpret_cast<std::byte*>(halves));
  EXPECT_EQ(halves[0], 0x3c00);
  EXPECT_EQ(halves[1], 0xae66);
  EXPECT_EQ(halves[2], 0x7c00);
  EXPECT_EQ(halves[3], 0x0002);
  EXPECT_EQ(halves[4], 0xaaaa);
  float floats[4];
  StoreKv(x, 4, KvType::kF32, reinterpret_cast<std::byte*>(floats));
  EXPECT_EQ(floats[1], -0.1f);
}

// A cache of several pages, filled with random rows; K and V of two KV heads in each page.
struct Cache {
  std::vector<std::vector<std::byte>> storage;
  std::vector<const std::byte*> pages;
  uint64_t head_size_bytes;

  Cache(KvType type, uint32_t head_dim, uint32_t token_count, TestRandom& random) {
    const uint64_t row_size_bytes = head_dim * (type == KvType::kF16 ? 2 : 4);
    head_size_bytes = kKvPageTokenCount * row_size_bytes;
    for (uint32_t token = 0; token < token_count; token += kKvPageTokenCount) {
      std::vector<std::byte>& page = storage.emplace_back(4 * head_size_bytes);
      for (size_t at = 0; at < page.size(); at += row_size_bytes) {
        std::vector<float> row(head_dim);
        for (float& value : row) value = random.Uniform(-2, 2);
        if (random.Next() % 5 == 0) row[0] = 3e-6f;  // a subnormal half
        StoreKv(row.data(), head_dim, type, page.data() + at);
      }
    }
    for (const auto& page : storage) pages.push_back(page.data());
  }
};

// The last token of `token_count` at `token_end` - 1; windows of `window` (0: none).
struct AttentionCase {
  uint32_t head_count, head_dim, token_end, token_count, window;
  float soft_cap;
};
constexpr AttentionCase kAttentionCases[] = {
    {1, 64, 1, 1, 0, 0},      {3, 64, 5, 1, 0, 0},     {3, 64, 300, 1, 0, 0},
    {4, 256, 260, 1, 10, 0},  {2, 8, 257, 1, 2, 0},    {5, 80, 600, 1, 597, 0},
    {7, 16, 700, 1, 189, 0},  {8, 32, 512, 1, 256, 0}, {4, 64, 77, 1, 0, 5.0f},
    {3, 96, 513, 1, 413, 50}, {9, 24, 768, 1, 1, 0},   {3, 64, 5, 5, 0, 0},
    {3, 64, 16, 16, 0, 0},    {1, 64, 300, 48, 0, 0},  {3, 64, 449, 13, 0, 0},
    {4, 256, 269, 12, 9, 0},  {2, 8, 70, 40, 7, 0},    {5, 80, 600, 6, 597, 20},
    {1, 16, 130, 48, 3, 0},   {4, 32, 64, 2, 64, 0}};

// softmax(cap(scale q.K)) V in f64, straight from the cache's bytes.
double ExpectedAttention(const AttentionArgs& args, uint32_t token, uint32_t head,
                         uint32_t element) {
  const auto load = [&](uint64_t offset, uint32_t cached, uint32_t i) -> double {
    const size_t size = args.kv_type == KvType::kF16 ? 2 : 4;
    const std::byte* at =
        args.pages[cached / 256] + offset + (size_t{cached % 256} * args.head_dim + i) * size;
    return size == 2 ? HalfToFloat(LoadLe<uint16_t>(at)) : LoadLe<float>(at);
  };
  const uint32_t end = args.position + token + 1;
  const uint32_t begin = args.window == 0 || args.window > end ? 0 : end - args.window;
  double total = 0, sum = 0;
  for (uint32_t cached = begin; cached < end; ++cached) {
    double score = 0;
    for (uint32_t i = 0; i < args.head_dim; ++i) {
      score += double{args.q[token * args.q_stride + head * args.head_dim + i]} *
               load(args.k_offset_bytes, cached, i);
    }
    score *= args.scale;
    if (args.soft_cap != 0) score = args.soft_cap * std::tanh(score / args.soft_cap);
    total += std::exp(score);
    sum += std::exp(score) * load(args.v_offset_bytes, cached, element);
  }
  return sum / total;
}

void ExpectAttention(const OpsTarget& target, const AttentionCase& c, KvType type) {
  SCOPED_TRACE(testing::Message() << target.name << " heads " << c.head_count << " dim "
                                  << c.head_dim << " tokens " << c.token_count << " up to "
                                  << c.token_end << " window " << c.window);
  TestRandom random(c.head_dim + c.token_end);
  const Cache cache(type, c.head_dim, c.token_end, random);
  const uint32_t width = c.head_count * c.head_dim;
  const size_t stride = width + 3;
  const auto q = RandomVector(static_cast<uint32_t>(stride) * c.token_count, 1.5f, c.token_end);
  std::vector<float> out(q.size(), kSentinel);
  const size_t scratch_count =
      AttentionScratchFloats(c.head_count, c.head_dim, c.token_count, c.token_end);
  std::vector<float> scratch(scratch_count + 1, kSentinel);
  const AttentionArgs args = {.pages = cache.pages.data(),
                              .k_offset_bytes = cache.head_size_bytes,
                              .v_offset_bytes = 3 * cache.head_size_bytes,
                              .kv_type = type,
                              .head_dim = c.head_dim,
                              .query_head_count = c.head_count,
                              .position = c.token_end - c.token_count,
                              .token_count = c.token_count,
                              .window = c.window,
                              .scale = 1.0f / std::sqrt(static_cast<float>(c.head_dim)),
                              .soft_cap = c.soft_cap,
                              .q = q.data(),
                              .q_stride = stride,
                              .out = out.data(),
                              .out_stride = stride,
                              .scratch = scratch.data()};
  target.attention(args);
  for (uint32_t token = 0; token < c.token_count; ++token) {
    for (uint32_t i = 0; i < width; i += 7) {
      ASSERT_NEAR(out[token * stride + i],
                  ExpectedAttention(args, token, i / c.head_dim, i % c.head_dim), 3e-6)
          << "token " << token << " column " << i;
    }
    for (size_t i = width; i < stride; ++i) ASSERT_EQ(out[token * stride + i], kSentinel);
  }
  EXPECT_EQ(scratch.back(), kSentinel);
}

TEST(AttentionTest, EqualsSoftmaxOverWindowsAcrossPages) {
  for (const OpsTarget& target : kOpsTargets) {
    for (KvType type : {KvType::kF16, KvType::kF32}) {
      for (const AttentionCase& c : kAttentionCases) {
        if (target.takes_partials && (c.token_count > 1 || type == KvType::kF32)) continue;
        ExpectAttention(target, c, type);
      }
    }
  }
}

TEST(AttentionTest, HeadsOfAnySizeFallBackToTheReference) {
  ExpectAttention(kOpsTargets[1], {3, 20, 270, 1, 0, 0}, KvType::kF16);
  ExpectAttention(kOpsTargets[1], {2, 7, 257, 3, 7, 10.0f}, KvType::kF32);
}

// One head, `token_count` tokens up to `position` + `token_count`.
struct SmallAttention {
  Cache cache;
  std::vector<float> q, out, scratch;
  AttentionArgs args;

  SmallAttention(KvType type, uint32_t head_dim, uint32_t position, uint32_t token_count,
                 TestRandom random)
      : cache(type, head_dim, position + token_count, random),
        q(RandomVector(head_dim * token_count, 1.0f, 3)),
        out(q.size()),
        scratch(AttentionScratchFloats(1, head_dim, token_count, position + token_count)),
        args({.pages = cache.pages.data(),
              .k_offset_bytes = 0,
              .v_offset_bytes = cache.head_size_bytes,
              .kv_type = type,
              .head_dim = head_dim,
              .query_head_count = 1,
              .position = position,
              .token_count = token_count,
              .window = 0,
              .scale = 1.0f,
              .soft_cap = 0,
              .q = q.data(),
              .q_stride = head_dim,
              .out = out.data(),
              .out_stride = head_dim,
              .scratch = scratch.data()}) {}
};

TEST(AttentionTest, NanInTheQueryGivesNan) {
  SmallAttention small(KvType::kF16, 16, 7, 1, TestRandom(1));
  small.q[3] = kNan;
  Attention(small.args);
  EXPECT_TRUE(std::isnan(small.out[0]));
  std::vector<float> partials(2 * (16 + kPartialExtra));
  AttendPartially(small.args, 0, 5, partials.data());
  AttendPartially(small.args, 5, 8, partials.data() + 16 + kPartialExtra);
  small.out.assign(16, 0.0f);
  MergePartials(small.args, partials.data(), 2);
  EXPECT_TRUE(std::isnan(small.out[0]));
}

// Cached tokens behind what a tile sees may be anything: they have not been written yet.
TEST(AttentionTest, WhatIsPastTheLastTokenIsNotRead) {
  SmallAttention small(KvType::kF32, 8, 1, 2, TestRandom(2));
  for (size_t token = 3; token < 8; ++token) {
    for (size_t half : {0u, 1u}) {
      std::byte* rows = small.cache.storage[0].data() + half * small.cache.head_size_bytes;
      std::fill_n(reinterpret_cast<float*>(rows) + token * 8, 8, kNan);
    }
  }
  Attention(small.args);
  for (float value : small.out) EXPECT_TRUE(std::isfinite(value));
}

}  // namespace
}  // namespace nonstop::cpu
