// Integer sums of one tile's quants (8 rows x 32 columns) times 1 to 4 tokens' 8-bit activations,
// exact in every vector target. `Quants` says where the weights come from: PackedQuants
// (quant_take.h) or UnpackedQuants (quant_tiles.h).
#pragma once

#include <algorithm>
#include <bit>

#include "cpu/generic/activations.h"
#include "cpu/generic/quant_take.h"

namespace nonstop::cpu {

// For each token, sub-block and half of the rows. A single token's sums are split in two chains of
// additions, which otherwise would wait for each other.
// Everything is inlined: a kernel's sums live in registers.
template <class S, class Quants, int kTokenCount>
struct TileSums {
  using I = typename S::I;
  using Block = ActivationBlock<S::kByteDot>;
  static constexpr uint32_t kSubBlockCount = Quants::kSubBlockCount;
  static constexpr uint32_t kStepsPerSubBlock = kStepCount<S> / kSubBlockCount;
  static constexpr uint32_t kColumnsPerStep = kTileColumnCount / kStepCount<S>;
  static constexpr bool kMovesSigns = S::kByteDot && Quants::kIsSigned;
  static constexpr uint32_t kChainCount =
      kTokenCount == 1 && kSubBlockCount == 1 && !S::kPairDot ? 2 : 1;
  // Pair sums that add up in 16 bits without overflow: each is at most 2 * 127 * the largest quant.
  static constexpr uint32_t kStepsPerFlush =
      std::min(kStepsPerSubBlock, std::bit_floor(32767u / (254u * Quants::kLargest)));
  struct Chains {
    I chain[kChainCount][2];
  };
  Chains sums[kTokenCount][kSubBlockCount];

  [[gnu::always_inline]] I Total(int t, uint32_t sub, uint32_t half) const {
    const Chains& s = sums[t][sub];
    if constexpr (kChainCount == 1) return s.chain[0][half];
    return S::Add32(s.chain[0][half], s.chain[kChainCount - 1][half]);
  }

  // Starts with what makes the products those of the weights: -offset * sum(q_x), or for signed
  // bytes what their flipped signs left out (w * -m = ~w * m + m).
  [[gnu::always_inline]] void Start(const Quants& quants, const Block* const* x) {
    for (int t = 0; t < kTokenCount; ++t) {
      for (uint32_t sub = 0; sub < kSubBlockCount; ++sub) {
        int32_t start = 0;
        if constexpr (kMovesSigns) {
          start = x[t]->negative_sum;
        } else if constexpr (Quants::kOffset != 0) {
          const int32_t* q_sums = x[t]->sums;
          start = -quants.offset() * (kSubBlockCount == 2 ? q_sums[sub] : q_sums[0] + q_sums[1]);
        }
        for (uint32_t chain = 0; chain < kChainCount; ++chain) {
          I* s = sums[t][sub].chain[chain];
          s[0] = s[1] = S::Splat32(chain == 0 ? start : 0);
        }
      }
    }
  }

  [[gnu::always_inline]] static I Dot(I q, I weights, I sum) {
    if constexpr (S::kByteDot) {
      return S::DotBytes(q, weights, sum);
    } else {
      return S::DotHalves(q, weights, sum);
    }
  }

  // visit(base, i) for step base + i of `kCount` steps from `first` on. A loop that is not unrolled
  // keeps what it shares in registers: compilers for stack machines otherwise gather each chain of
  // operations in one place.
  template <uint32_t kCount, class Visit>
  [[gnu::always_inline]] static void ForEachStep(uint32_t first, Visit&& visit) {
    constexpr uint32_t kRound = std::max(Quants::kRoundSteps, kChainCount);
    if constexpr (kRound >= kCount) {
#pragma clang loop unroll(full)
      for (uint32_t i = 0; i < kCount; ++i) visit(first, i);
    } else {
#pragma clang loop unroll(disable)
      for (uint32_t base = first; base < first + kCount; base += kRound) {
#pragma clang loop unroll(full)
        for (uint32_t i = 0; i < kRound; ++i) visit(base, i);
      }
    }
  }

  [[gnu::always_inline]] void AddDirectly(const Quants& quants, const Block* const* x) {
#pragma clang loop unroll(full)
    for (uint32_t sub = 0; sub < kSubBlockCount; ++sub) {
      ForEachStep<kStepsPerSubBlock>(
          sub * kStepsPerSubBlock, [&](uint32_t base, uint32_t i) __attribute__((always_inline)) {
            const I w0 = quants.Take(base, i, 0), w1 = quants.Take(base, i, 1);
#pragma clang loop unroll(full)
            for (int t = 0; t < kTokenCount; ++t) {
              I* s = sums[t][sub].chain[i % kChainCount];
              const I q = S::LoadSplat32(x[t]->q + kColumnsPerStep * (base + i));
              s[0] = Dot(q, w0, s[0]);
              s[1] = Dot(q, w1, s[1]);
            }
          });
    }
  }

  // Unsigned quants by way of 16-bit sums, widened as seldom as their range allows.
  [[gnu::always_inline]] void AddByPairs(const Quants& quants, const Block* const* x) {
    const I ones = S::Splat16(1);
#pragma clang loop unroll(full)
    for (uint32_t first = 0; first < kStepCount<S>; first += kStepsPerFlush) {
      I pairs[kTokenCount][2];
      for (auto& pair : pairs) pair[0] = pair[1] = S::Splat32(0);
      ForEachStep<kStepsPerFlush>(
          first, [&](uint32_t base, uint32_t i) __attribute__((always_inline)) {
            const I w0 = quants.Take(base, i, 0), w1 = quants.Take(base, i, 1);
#pragma clang loop unroll(full)
            for (int t = 0; t < kTokenCount; ++t) {
              const I q = S::LoadSplat32(x[t]->q + kColumnsPerStep * (base + i));
              pairs[t][0] = S::Add16(pairs[t][0], S::DotPairs(q, w0));
              pairs[t][1] = S::Add16(pairs[t][1], S::DotPairs(q, w1));
            }
          });
#pragma clang loop unroll(full)
      for (int t = 0; t < kTokenCount; ++t) {
        I* s = sums[t][first / kStepsPerSubBlock].chain[0];
        s[0] = S::DotHalves(pairs[t][0], ones, s[0]);
        s[1] = S::DotHalves(pairs[t][1], ones, s[1]);
      }
    }
  }

  // Signed bytes; the operand in 0..127 is the magnitude of x, its sign goes to the weight.
  [[gnu::always_inline]] void AddMovingSigns(const Quants& quants, const Block* const* x) {
    const I ones = S::Splat16(1);
    ForEachStep<kStepCount<S>>(0, [&](uint32_t base, uint32_t i) __attribute__((always_inline)) {
      const I w0 = quants.Take(base, i, 0), w1 = quants.Take(base, i, 1);
#pragma clang loop unroll(full)
      for (int t = 0; t < kTokenCount; ++t) {
        I* s = sums[t][0].chain[i % kChainCount];
        const I sign = S::LoadSplat32(x[t]->sign + kColumnsPerStep * (base + i));
        const I magnitude = S::LoadSplat32(x[t]->magnitude + kColumnsPerStep * (base + i));
        const I v0 = S::Xor(w0, sign), v1 = S::Xor(w1, sign);
        if constexpr (S::kPairDot) {  // at most 2 * 127 * 128
          s[0] = S::DotHalves(S::DotPairs(v0, magnitude), ones, s[0]);
          s[1] = S::DotHalves(S::DotPairs(v1, magnitude), ones, s[1]);
        } else {
          s[0] = S::DotBytes(v0, magnitude, s[0]);
          s[1] = S::DotBytes(v1, magnitude, s[1]);
        }
      }
    });
  }

  [[gnu::always_inline]] void Add(const Quants& quants, const Block* const* x) {
    if constexpr (kMovesSigns) {
      AddMovingSigns(quants, x);
    } else if constexpr (S::kPairDot) {
      AddByPairs(quants, x);
    } else {
      AddDirectly(quants, x);
    }
  }
};

// acc[t] += scale * x_scale * sum [+ minimum * x_scale * sum(q_x)], in this order in every kernel.
template <class S, class Quants, int kTokenCount, bool kHasMinimum>
[[gnu::always_inline]] inline void AddScaled(const TileSums<S, Quants, kTokenCount>& sums,
                                             const TileScales<S, Quants::kSubBlockCount>& scales,
                                             const ActivationBlock<S::kByteDot>* const* x,
                                             FloatPair<S>* acc) {
#pragma clang loop unroll(full)
  for (int t = 0; t < kTokenCount; ++t) {
    const auto x_scale = S::SplatF(x[t]->scale);
#pragma clang loop unroll(full)
    for (uint32_t sub = 0; sub < Quants::kSubBlockCount; ++sub) {
#pragma clang loop unroll(full)
      for (uint32_t half = 0; half < 2; ++half) {
        auto& a = acc[t].half[half];
        const auto factor = S::Mul(scales.scale[sub].half[half], x_scale);
        a = S::Fma(S::FromInt(sums.Total(t, sub, half)), factor, a);
        if constexpr (kHasMinimum) {
          const float x_sum = Quants::kSubBlockCount == 1
                                  ? x[t]->scaled_sum
                                  : x[t]->scale * static_cast<float>(x[t]->sums[sub]);
          a = S::Fma(scales.minimum[sub].half[half], S::SplatF(x_sum), a);
        }
      }
    }
  }
}

// f16 scales stay 2^112 too small and activations' are 2^56 too large (activations.h): the result
// is brought back with one multiplication instead of one for each block.
constexpr float ResultFactor(const QuantLayout& layout) {
  return layout.HasSubBlocks() ? 1.0f / kActivationScaleFactor : 0x1p112f / kActivationScaleFactor;
}

}  // namespace nonstop::cpu
