// Kernel calls of what works on rows: norms, the plain elementwise ops, RoPE, cache writes,
// selection of rows.
#pragma once

#include <vector>

#include "graph/op.h"
#include "webgpu/kernel_call.h"
#include "webgpu/product.h"

namespace nonstop {

inline constexpr uint32_t kNoVector = UINT32_MAX;

// Where one layer lies in the pages of a cache buffer, in words.
struct CachePlace {
  uint32_t head_dim = 0;
  uint32_t kv_head_count = 0;
  bool is_f32 = false;
  uint32_t offset = 0;      // of the layer in a page
  uint32_t page_words = 0;  // of a page

  // Elements of a row of the cache: head_dim, padded for reads in vectors.
  uint32_t stride() const { return (head_dim + 7) / 8 * 8; }
  uint32_t layer_words() const {
    return 2 * kv_head_count * 256 * (is_f32 ? stride() : stride() / 2);
  }
};

// y = rms_norm(x), by groups, plus a residual if there is one.
struct NormOp {
  ActivationPlace x, y;
  ActivationPlace residual;  // kNoBuffer: none
  uint32_t group_count = 1;  // of a row
  uint32_t group = 0;        // elements
  uint32_t weight = 0;       // in vectors
  float eps = 0.0f;
  RowSpace row_space = RowSpace::kTokens;
  StateShape state;
};
KernelCall MakeNormCall(const NormOp& op);

// The elementwise ops and those by groups, kGroupMean aside.
struct MapOp {
  OpKind op = OpKind::kAdd;
  ActivationPlace a, b, y;
  uint32_t vector = 0;  // kAddBias, kMulWeight: in vectors
  uint32_t width = 0;
  uint32_t group = 0;   // kMulGroup, kMulWeight; 0: the whole row
  float number = 0.0f;  // scale, eps or cap
  RowSpace row_space = RowSpace::kTokens;
  StateShape state;
};
KernelCall MakeMapCall(const MapOp& op);

struct MeanOp {
  ActivationPlace x, y;
  uint32_t group_count = 1;
  uint32_t group = 0;
  RowSpace row_space = RowSpace::kTokens;
  StateShape state;
};
KernelCall MakeMeanCall(const MeanOp& op);

struct SelectOp {
  ActivationPlace x, y;
  uint32_t width = 0;
  StateShape state;
};
KernelCall MakeSelectCall(const SelectOp& op);

struct RotationOp {
  uint32_t rotated_dim = 0;
  bool halves = false;
  uint32_t frequencies = 0;  // in vectors: see EncodeFrequencies
  float magnitude = 1.0f;
};

struct RopeOp {
  ActivationPlace x, y;
  uint32_t head_count = 0;
  uint32_t head_dim = 0;
  RotationOp rotation;
  StateShape state;
};
KernelCall MakeRopeCall(const RopeOp& op);

struct KvWriteOp {
  ActivationPlace k, v;
  CachePlace cache;
  StateShape state;
};
KernelCall MakeKvWriteCall(const KvWriteOp& op);

// q, k and v of each row, as products leave them, and what is to become of them
// (kernels/head_rows.wgsl).
struct HeadRows {
  ActivationPlace x;  // (rows, q | k | v)
  uint32_t head_count = 0;
  RotationOp rotation;
  bool has_norms = false;
  uint32_t q_norm = 0;  // in vectors
  uint32_t k_norm = 0;
  float eps = 0.0f;
};
// What HeadRows adds to a kernel that reads them.
void AddHeadRows(const HeadRows& rows, std::vector<KernelConstant>* constants,
                 std::array<uint32_t, 16>* params);

struct RopeKvOp {
  HeadRows rows;
  ActivationPlace q;
  CachePlace cache;
  StateShape state;
};
KernelCall MakeRopeKvCall(const RopeKvOp& op);

// Constants and params of the cache.
void AddCache(const CachePlace& cache, std::vector<KernelConstant>* constants,
              std::array<uint32_t, 16>* params);

// Frequencies in radians per position as rope.wgsl reads them: for each, its part of a turn in
// units of 2^-24 and what is left in units of 2^-40, both whole numbers.
std::vector<float> EncodeFrequencies(const std::vector<float>& radians);

// Writes the text and the bindings of a call. `bindings` need not be in order.
void ComposeCall(KernelSpec spec, KernelCall* call);

}  // namespace nonstop
