// Plain loops; see ops.h. Sources of the formulas are named in cpu/ops.h.
#include "cpu/reference/ops.h"

#include <cmath>

#include "base/bytes.h"
#include "base/check.h"
#include "base/exact_math.h"
#include "base/half.h"

namespace nonstop::cpu::reference {
namespace {

float LoadKv(const std::byte* row, uint32_t index, KvType type) {
  if (type == KvType::kF16) return HalfToFloat(LoadLe<uint16_t>(row + 2 * size_t{index}));
  return LoadLe<float>(row + 4 * size_t{index});
}

// The row of `token` in the K or V half of its page.
const std::byte* KvRow(const AttentionArgs& args, uint64_t offset_bytes, uint32_t token) {
  const size_t row_size_bytes = size_t{args.head_dim} * (args.kv_type == KvType::kF16 ? 2 : 4);
  return args.pages[token / kKvPageTokenCount] + offset_bytes +
         (token % kKvPageTokenCount) * row_size_bytes;
}

double Score(const AttentionArgs& args, const float* q, uint32_t token) {
  const std::byte* k = KvRow(args, args.k_offset_bytes, token);
  double sum = 0;
  for (uint32_t i = 0; i < args.head_dim; ++i) sum += double{q[i]} * LoadKv(k, i, args.kv_type);
  sum *= args.scale;
  return args.soft_cap == 0 ? sum : args.soft_cap * ExactTanh(sum / args.soft_cap);
}

// scratch: the weights of what the token sees.
void AttendHead(const AttentionArgs& args, uint32_t begin, uint32_t end, const float* q,
                float* out) {
  float* weights = args.scratch;
  double largest = -INFINITY;
  for (uint32_t token = begin; token < end; ++token) {
    weights[token - begin] = static_cast<float>(Score(args, q, token));
    largest = std::fmax(largest, weights[token - begin]);
  }
  double total = 0;
  for (uint32_t i = 0; i < end - begin; ++i) {
    weights[i] = static_cast<float>(ExactExp(weights[i] - largest));
    total += weights[i];
  }
  for (uint32_t i = 0; i < args.head_dim; ++i) {
    double sum = 0;
    for (uint32_t token = begin; token < end; ++token) {
      const std::byte* v = KvRow(args, args.v_offset_bytes, token);
      sum += double{weights[token - begin]} * LoadKv(v, i, args.kv_type);
    }
    out[i] = static_cast<float>(sum / total);
  }
}

}  // namespace

void RmsNorm(const float* x, const float* w, uint32_t length, float eps, float* y) {
  double squares = 0;
  for (uint32_t i = 0; i < length; ++i) squares += double{x[i]} * x[i];
  const double factor = 1.0 / std::sqrt(squares / length + eps);
  for (uint32_t i = 0; i < length; ++i) y[i] = static_cast<float>(x[i] * factor * w[i]);
}

void SiluMul(const float* gate, const float* up, uint32_t length, float* y) {
  for (uint32_t i = 0; i < length; ++i) {
    const double g = gate[i];
    y[i] = static_cast<float>(g / (1.0 + ExactExp(-g)) * up[i]);
  }
}

void GeluMul(const float* gate, const float* up, uint32_t length, float* y) {
  constexpr double kSqrt2OverPi = 0.79788456080286535588;
  for (uint32_t i = 0; i < length; ++i) {
    const double g = gate[i];
    const double gelu = 0.5 * g * (1.0 + ExactTanh(kSqrt2OverPi * g * (1.0 + 0.044715 * g * g)));
    y[i] = static_cast<float>(gelu * up[i]);
  }
}

void Add(const float* a, const float* b, uint32_t length, float* y) {
  for (uint32_t i = 0; i < length; ++i) y[i] = a[i] + b[i];
}

void Scale(const float* x, float factor, uint32_t length, float* y) {
  for (uint32_t i = 0; i < length; ++i) y[i] = x[i] * factor;
}

void SoftCap(const float* x, float cap, uint32_t length, float* y) {
  for (uint32_t i = 0; i < length; ++i) {
    y[i] = static_cast<float>(cap * ExactTanh(double{x[i]} / cap));
  }
}

void RopeTable(uint32_t position, const float* frequencies, uint32_t pair_count, float magnitude,
               float* cos_sin) {
  for (uint32_t i = 0; i < pair_count; ++i) {
    const double angle = double{frequencies[i]} * position;
    const CosSin rotated = ExactCosSin(angle);
    cos_sin[i] = static_cast<float>(rotated.cosine * magnitude);
    cos_sin[pair_count + i] = static_cast<float>(rotated.sine * magnitude);
  }
}

void Rope(float* x, uint32_t head_count, uint32_t head_dim, const float* cos_sin,
          uint32_t pair_count, RopeStyle style) {
  CHECK(2 * pair_count <= head_dim);
  for (uint32_t head = 0; head < head_count; ++head, x += head_dim) {
    for (uint32_t i = 0; i < pair_count; ++i) {
      float& a = style == RopeStyle::kAdjacent ? x[2 * i] : x[i];
      float& b = style == RopeStyle::kAdjacent ? x[2 * i + 1] : x[pair_count + i];
      const float cosine = cos_sin[i], sine = cos_sin[pair_count + i];
      const float rotated_a = a * cosine - b * sine;
      b = a * sine + b * cosine;
      a = rotated_a;
    }
  }
}

void StoreKv(const float* x, uint32_t head_dim, KvType type, std::byte* out) {
  for (uint32_t i = 0; i < head_dim; ++i) {
    if (type == KvType::kF16) {
      StoreLe(out + 2 * size_t{i}, FloatToHalf(x[i]));
    } else {
      StoreLe(out + 4 * size_t{i}, x[i]);
    }
  }
}

void Attention(const AttentionArgs& args) {
  for (uint32_t token = 0; token < args.token_count; ++token) {
    for (uint32_t head = 0; head < args.query_head_count; ++head) {
      const size_t column = size_t{head} * args.head_dim;
      AttendHead(args, args.FirstSeenBy(token), args.position + token + 1,
                 args.q + token * args.q_stride + column,
                 args.out + token * args.out_stride + column);
    }
  }
}

}  // namespace nonstop::cpu::reference
