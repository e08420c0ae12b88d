// The op table: every operation a graph may hold, its operands, and its attributes.
// Plain ops are what the papers write; composite and fused ops carry a definition in plainer ops
// (graph/definition.h), which is their documentation, their fallback and their test oracle.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace nonstop {

enum class OpKind : uint8_t {
  // Plain.
  kEmbed,       // x[t] = table[ids[t]] * scale
  kMatMul,      // y[t, r] = sum_k x[t, k] * w[r, k]
  kAddBias,     // y = x + bias
  kAdd,         // y = a + b
  kMul,         // y = a * b
  kScale,       // y = x * scale
  kSilu,        // y = x / (1 + exp(-x))
  kGelu,        // y = gelu(x), the tanh form
  kSoftCap,     // y = soft_cap * tanh(x / soft_cap)
  kSquare,      // y = x * x
  kGroupMean,   // y[t, g] = mean of x[t, g * group .. (g + 1) * group)
  kAddScalar,   // y = x + eps
  kRsqrt,       // y = 1 / sqrt(x)
  kMulGroup,    // y[t, i] = x[t, i] * s[t, i / group]
  kMulWeight,   // y[t, i] = x[t, i] * w[i % group]
  kRope,        // rotary position embedding of each head of head_dim
  kKvWrite,     // the cache with rows k and v stored at each token's position
  kAttention,   // softmax(cap(scale * q K)) V over the token's own sequence
  kSelectRows,  // the rows whose logits are wanted
  // Composite: one op in every plan but the unfused ones.
  kRmsNorm,  // x / sqrt(mean(x^2) + eps) * w, over groups
  // Fused.
  kNormMatMul,  // matmul(rms_norm(x), w), soft-capped where the model does
  kMatMulAdd,   // residual + matmul(x, w)
  kNormAdd,     // residual + rms_norm(x)
  kNormGateUp,  // act(matmul(n, gate)) * matmul(n, up), n = rms_norm(x)
  kNormQkv,     // q, cache = norm, Q, K and V products, biases, head norms, RoPE, cache write
  kCount,
};

enum class Activation : uint8_t { kNone, kSilu, kGelu };

// All attributes of all ops; an op uses those its table row names. Defaults mean "not used".
struct OpAttributes {
  float scale = 1.0f;
  float eps = 0.0f;
  float soft_cap = 0.0f;  // 0: none
  float rope_magnitude = 1.0f;
  uint32_t group = 0;  // 0: the whole row
  uint32_t head_dim = 0;
  uint32_t head_count = 0;  // query heads
  uint32_t kv_head_count = 0;
  uint32_t rotated_dim = 0;
  uint32_t rope_halves = 0;  // 1: pairs (i, i + dim/2); 0: pairs (2i, 2i + 1)
  uint32_t window = 0;       // 0: sees all earlier tokens; else tokens p with q - p < window
  uint32_t layer = 0;        // of the cache
  uint32_t activation = 0;   // Activation

  bool operator==(const OpAttributes&) const = default;
};

// What an operand slot accepts.
enum class SlotKind : uint8_t {
  kActivation,  // f32 rows
  kMatrix,      // weights (rows, columns)
  kVector,      // weights (columns), f32
  kConstant,    // f32 numbers computed from hyper-parameters (RoPE frequencies)
  kIndices,     // one integer a token: ids, positions, output rows
  kCache,       // the KV cache, a new version after each write
};

struct SlotInfo {
  const char* name;
  SlotKind kind;
  bool is_optional;
};

struct OpInfo {
  OpKind kind;
  const char* name;
  std::span<const SlotInfo> inputs;
  std::span<const SlotInfo> outputs;
  uint32_t attributes;  // bits of kAttributeTable, in its order
  bool is_fused;        // has a definition in plainer ops
};

const OpInfo& GetOpInfo(OpKind kind);
const OpInfo* FindOpInfo(std::string_view name);

struct AttributeInfo {
  const char* name;
  bool is_float;
  float OpAttributes::* float_member;
  uint32_t OpAttributes::* uint_member;
};
std::span<const AttributeInfo> GetAttributeTable();

}  // namespace nonstop
