// Vector operations: the reference against values worked out elsewhere, every vector target of the
// build against the reference.
#include "cpu/ops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/half.h"
#include "cpu/generic/attention.h"
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
};

template <class S>
void AttentionOf(const AttentionArgs& args) {
  if (args.kv_type == KvType::kF16) {
    AttentionOn<S, KvRowF16<S>>(args).Run();
  } else {
    AttentionOn<S, KvRowF32<S>>(args).Run();
  }
}

template <class S>
constexpr OpsTarget OpsTargetOf() {
  using Ops = OpsOn<S>;
  return {S::kName, Ops::RmsNorm, Ops::SiluMul, Ops::GeluMul,
          Ops::Add, Ops::Scale,   Ops::SoftCap, AttentionOf<S>};
}

constexpr OpsTarget kOpsTargets[] = {
    {"reference", reference::RmsNorm, reference::SiluMul, reference::GeluMul, reference::Add,
     reference::Scale, reference::SoftCap, reference::Attention},
    {"public", RmsNorm, SiluMul, GeluMul, Add, Scale, SoftCap, Attention},
    OpsTargetOf<vec::Scalar<false>>(),
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

struct AttentionCase {
  uint32_t head_count, head_dim, token_begin, token_end;
  float soft_cap;
};
constexpr AttentionCase kAttentionCases[] = {
    {1, 64, 0, 1, 0},     {3, 64, 0, 5, 0},         {3, 64, 0, 300, 0},   {4, 256, 250, 260, 0},
    {2, 8, 255, 257, 0},  {5, 80, 3, 600, 0},       {7, 16, 511, 700, 0}, {8, 32, 256, 512, 0},
    {4, 64, 0, 77, 5.0f}, {3, 96, 100, 513, 50.0f}, {9, 24, 767, 768, 0}};

// softmax(cap(scale q.K)) V in f64, straight from the cache's bytes.
double ExpectedAttention(const AttentionArgs& args, uint32_t head, uint32_t element) {
  const auto load = [&](uint64_t offset, uint32_t token, uint32_t i) -> double {
    const size_t size = args.kv_type == KvType::kF16 ? 2 : 4;
    const std::byte* at =
        args.pages[token / 256] + offset + (size_t{token % 256} * args.head_dim + i) * size;
    return size == 2 ? HalfToFloat(LoadLe<uint16_t>(at)) : LoadLe<float>(at);
  };
  double total = 0, sum = 0;
  for (uint32_t token = args.token_begin; token < args.token_end; ++token) {
    double score = 0;
    for (uint32_t i = 0; i < args.head_dim; ++i) {
      score += double{args.q[head * args.head_dim + i]} * load(args.k_offset_bytes, token, i);
    }
    score *= args.scale;
    if (args.soft_cap != 0) score = args.soft_cap * std::tanh(score / args.soft_cap);
    total += std::exp(score);
    sum += std::exp(score) * load(args.v_offset_bytes, token, element);
  }
  return sum / total;
}

void ExpectAttention(const OpsTarget& target, const AttentionCase& c, KvType type) {
  TestRandom random(c.head_dim + c.token_end);
  const Cache cache(type, c.head_dim, c.token_end, random);
  const auto q = RandomVector(c.head_count * c.head_dim, 1.5f, c.token_end);
  std::vector<float> out(q.size() + 1, kSentinel);
  const size_t scratch_count =
      AttentionScratchFloats(c.head_count, c.head_dim, c.token_end - c.token_begin);
  std::vector<float> scratch(scratch_count + 1, kSentinel);
  const AttentionArgs args = {cache.pages.data(),
                              cache.head_size_bytes,
                              3 * cache.head_size_bytes,
                              type,
                              c.head_dim,
                              c.head_count,
                              c.token_begin,
                              c.token_end,
                              1.0f / std::sqrt(static_cast<float>(c.head_dim)),
                              c.soft_cap,
                              q.data(),
                              out.data(),
                              scratch.data()};
  target.attention(args);
  for (uint32_t head = 0; head < c.head_count; ++head) {
    for (uint32_t i = 0; i < c.head_dim; i += 7) {
      ASSERT_NEAR(out[head * c.head_dim + i], ExpectedAttention(args, head, i), 3e-6)
          << target.name << " head " << head << " element " << i << " dim " << c.head_dim
          << " tokens " << c.token_begin << ".." << c.token_end;
    }
  }
  EXPECT_EQ(out.back(), kSentinel) << target.name << " dim " << c.head_dim;
  EXPECT_EQ(scratch.back(), kSentinel) << target.name << " dim " << c.head_dim;
}

TEST(AttentionTest, EqualsSoftmaxOverWindowsAcrossPages) {
  for (const OpsTarget& target : kOpsTargets) {
    for (KvType type : {KvType::kF16, KvType::kF32}) {
      for (const AttentionCase& c : kAttentionCases) ExpectAttention(target, c, type);
    }
  }
}

TEST(AttentionTest, HeadsOfAnySizeFallBackToTheReference) {
  ExpectAttention(kOpsTargets[1], {3, 20, 0, 270, 0}, KvType::kF16);
  ExpectAttention(kOpsTargets[1], {2, 7, 250, 257, 10.0f}, KvType::kF32);
}

TEST(AttentionTest, NanInTheQueryGivesNan) {
  TestRandom random(1);
  const Cache cache(KvType::kF16, 16, 8, random);
  std::vector<float> q(16, 1.0f), out(16), scratch(AttentionScratchFloats(1, 16, 8));
  q[3] = kNan;
  Attention({cache.pages.data(), 0, cache.head_size_bytes, KvType::kF16, 16, 1, 0, 8, 1.0f, 0,
             q.data(), out.data(), scratch.data()});
  EXPECT_TRUE(std::isnan(out[0]));
}

}  // namespace
}  // namespace nonstop::cpu
