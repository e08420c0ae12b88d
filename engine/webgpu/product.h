// Products on the GPU: from an op with its matrices to kernels, what they bind, their parameters
// and their workgroups. 1 to 8 token rows go to matvec*.wgsl, which norm the rows themselves and
// for QKV rotate and write the cache; more rows go to the tiles of matmul.wgsl.
// Bindings are KernelSource's, in order: activations read (x; a second arena where the residual is
// not in place), activations read_write (y), windows of weights, vectors, cache, state, params.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"
#include "webgpu/attention_parts.h"
#include "webgpu/kernel_source.h"
#include "webgpu/state.h"
#include "webgpu/weights.h"

namespace nonstop {

enum class ProductKind : uint8_t {
  kPlain,    // y = x W, soft-capped where soft_cap is set
  kAdd,      // y = residual + x W
  kGateUp,   // y = act(x gate) * (x up)
  kQkv,      // q = RoPE(x Wq + bq); RoPE(x Wk + bk) and x Wv + bv go to the cache
  kQkvRows,  // y = q | k | v of each token, with biases, not rotated
};

inline constexpr uint32_t kNoOffset = UINT32_MAX;
inline constexpr uint32_t kMatvecRowLimit = 8;

// Offsets are in f32 elements of the buffer.
struct ProductOp {
  ProductKind kind = ProductKind::kPlain;
  std::span<const GpuMatrix> matrices;  // w; gate, up; or q, k, v
  uint32_t row_limit = 1;               // most token rows of a run
  RowSpace row_space = RowSpace::kTokens;
  StateShape state;
  bool uses_subgroups = false;
  uint32_t workgroup_bytes = 16'384;  // of memory that a workgroup may have: WebGPU's default

  uint32_t x_offset = 0;  // (rows, columns of the matrices)
  uint32_t y_offset = 0;  // (rows, y_width)
  uint32_t y_width = 0;
  uint32_t residual_offset = kNoOffset;  // kAdd: in the second arena; kNoOffset: in place, in y

  uint32_t norm_offset = kNoOffset;  // RMSNorm of x, in vectors. At most 8 rows
  float eps = 0.0f;
  std::optional<AttentionParts> x_parts = {};  // x is attention's. At most 8 rows; CanReadParts
  Activation activation = Activation::kNone;   // kGateUp
  float soft_cap = 0.0f;                       // kPlain
  std::array<uint32_t, 3> bias_offsets = {kNoOffset, kNoOffset, kNoOffset};  // kQkv, kQkvRows

  // kQkv, at most 8 rows: see CanFuseRope.
  uint32_t head_dim = 0;
  uint32_t rotated_dim = 0;
  bool rope_halves = false;
  float rope_magnitude = 1.0f;
  uint32_t frequencies_offset = kNoOffset;  // in vectors, EncodeFrequencies (rows.h)
  bool kv_is_f32 = false;
  uint32_t cache_offset = 0;  // in words: of the layer's K, inside a page
  uint32_t page_words = 0;    // of a page of the layer's group
};

// Whether a product of this shape may rotate and write the cache itself (kQkv).
bool CanFuseRope(uint32_t head_dim, uint32_t rotated_dim);

// Whether a product can put attention's parts together itself.
bool CanReadParts(const AttentionParts& parts);

// What a pipeline is specialised by: equal shapes have equal kernels.
struct ProductShape {
  ProductKind kind = ProductKind::kPlain;
  uint32_t column_count = 0;
  std::array<DType, 3> dtypes = {};
  std::array<uint8_t, 3> slots = {};        // of each matrix: its window among those bound
  std::array<uint32_t, 3> row_counts = {};  // kQkv, kQkvRows
  uint8_t matrix_count = 1;
  uint8_t window_count = 1;
  bool has_many_rows = false;  // of weights
  bool has_many_tiles = false;
  uint32_t row_limit = 1;
  RowSpace row_space = RowSpace::kTokens;
  StateShape state;
  bool uses_subgroups = false;
  uint32_t workgroup_bytes = 16'384;
  bool residual_is_apart = false;
  bool has_norm = false;
  float eps = 0.0f;
  std::optional<AttentionParts> x_parts = {};
  Activation activation = Activation::kNone;
  float soft_cap = 0.0f;
  std::array<bool, 3> has_bias = {};
  uint32_t head_dim = 0;
  uint32_t rotated_dim = 0;
  bool rope_halves = false;
  float rope_magnitude = 1.0f;
  bool kv_is_f32 = false;

  bool operator==(const ProductShape&) const = default;
};

struct ProductDispatch {
  ProductShape shape;
  std::vector<GpuBufferId> windows;      // to bind as weights, in order
  std::array<uint32_t, 16> params = {};  // words
  uint32_t row_count = 0;                // weight rows, of all matrices but a gate's up

  // For this many token rows (1 .. row_limit).
  std::array<uint32_t, 3> Workgroups(uint32_t token_rows) const;
};

// One dispatch, or one for each part of a matrix that is larger than a window.
Result<std::vector<ProductDispatch>> LowerProduct(const ProductOp& op);

// The bindings that MakeProductKernel's source has, in order.
std::vector<KernelBinding> ProductBindings(const ProductShape& shape);
KernelSource MakeProductKernel(const ProductShape& shape);

// embed: y[t] = table[id of t] * scale. One dispatch binds up to three windows.
struct EmbedOp {
  const GpuMatrix* table = nullptr;
  float scale = 1.0f;
  StateShape state;
  uint32_t y_offset = 0;
};
struct EmbedShape {
  DType dtype = DType::kF32;
  uint32_t column_count = 0;
  uint32_t window_count = 1;
  float scale = 1.0f;
  StateShape state;

  bool operator==(const EmbedShape&) const = default;
};
struct EmbedDispatch {
  EmbedShape shape;
  std::vector<GpuBufferId> windows;
  std::array<uint32_t, 16> params = {};

  std::array<uint32_t, 3> Workgroups(uint32_t token_rows) const;
};
Result<std::vector<EmbedDispatch>> LowerEmbed(const EmbedOp& op);
std::vector<KernelBinding> EmbedBindings(const EmbedShape& shape);
KernelSource MakeEmbedKernel(const EmbedShape& shape);

}  // namespace nonstop
