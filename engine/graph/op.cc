#include "graph/op.h"

#include "base/check.h"

namespace nonstop {
namespace {

enum : uint32_t {
  kScaleBit = 1u << 0,
  kEpsBit = 1u << 1,
  kSoftCapBit = 1u << 2,
  kMagnitudeBit = 1u << 3,
  kGroupBit = 1u << 4,
  kHeadDimBit = 1u << 5,
  kHeadsBit = 1u << 6,
  kKvHeadsBit = 1u << 7,
  kRotatedBit = 1u << 8,
  kHalvesBit = 1u << 9,
  kWindowBit = 1u << 10,
  kLayerBit = 1u << 11,
  kActivationBit = 1u << 12,
};

constexpr uint32_t kRopeBits = kMagnitudeBit | kHeadDimBit | kRotatedBit | kHalvesBit;

constexpr AttributeInfo kAttributeTable[] = {
    {"scale", true, &OpAttributes::scale, nullptr},
    {"eps", true, &OpAttributes::eps, nullptr},
    {"soft_cap", true, &OpAttributes::soft_cap, nullptr},
    {"rope_magnitude", true, &OpAttributes::rope_magnitude, nullptr},
    {"group", false, nullptr, &OpAttributes::group},
    {"head_dim", false, nullptr, &OpAttributes::head_dim},
    {"head_count", false, nullptr, &OpAttributes::head_count},
    {"kv_head_count", false, nullptr, &OpAttributes::kv_head_count},
    {"rotated_dim", false, nullptr, &OpAttributes::rotated_dim},
    {"rope_halves", false, nullptr, &OpAttributes::rope_halves},
    {"window", false, nullptr, &OpAttributes::window},
    {"layer", false, nullptr, &OpAttributes::layer},
    {"activation", false, nullptr, &OpAttributes::activation},
};

constexpr SlotKind kA = SlotKind::kActivation;
constexpr SlotInfo kOutX[] = {{"y", kA, false}};
constexpr SlotInfo kOutCache[] = {{"cache", SlotKind::kCache, false}};
constexpr SlotInfo kOutQkv[] = {{"q", kA, false}, {"cache", SlotKind::kCache, false}};
constexpr SlotInfo kInX[] = {{"x", kA, false}};
constexpr SlotInfo kInAb[] = {{"a", kA, false}, {"b", kA, false}};
constexpr SlotInfo kInXVector[] = {{"x", kA, false}, {"w", SlotKind::kVector, false}};
constexpr SlotInfo kInXMatrix[] = {{"x", kA, false}, {"w", SlotKind::kMatrix, false}};
constexpr SlotInfo kInEmbed[] = {{"ids", SlotKind::kIndices, false},
                                 {"table", SlotKind::kMatrix, false}};
constexpr SlotInfo kInRope[] = {{"x", kA, false},
                                {"positions", SlotKind::kIndices, false},
                                {"frequencies", SlotKind::kConstant, false}};
constexpr SlotInfo kInKvWrite[] = {{"cache", SlotKind::kCache, false},
                                   {"k", kA, false},
                                   {"v", kA, false},
                                   {"positions", SlotKind::kIndices, false}};
constexpr SlotInfo kInAttention[] = {
    {"q", kA, false}, {"cache", SlotKind::kCache, false}, {"positions", SlotKind::kIndices, false}};
constexpr SlotInfo kInSelect[] = {{"x", kA, false}, {"output_rows", SlotKind::kIndices, false}};
constexpr SlotInfo kInNormMatMul[] = {
    {"x", kA, false}, {"norm", SlotKind::kVector, false}, {"w", SlotKind::kMatrix, false}};
constexpr SlotInfo kInMatMulAdd[] = {
    {"x", kA, false}, {"w", SlotKind::kMatrix, false}, {"residual", kA, false}};
constexpr SlotInfo kInNormAdd[] = {
    {"x", kA, false}, {"norm", SlotKind::kVector, false}, {"residual", kA, false}};
constexpr SlotInfo kInNormGateUp[] = {{"x", kA, false},
                                      {"norm", SlotKind::kVector, false},
                                      {"gate", SlotKind::kMatrix, false},
                                      {"up", SlotKind::kMatrix, false}};
constexpr SlotInfo kInNormQkv[] = {{"x", kA, false},
                                   {"norm", SlotKind::kVector, false},
                                   {"wq", SlotKind::kMatrix, false},
                                   {"wk", SlotKind::kMatrix, false},
                                   {"wv", SlotKind::kMatrix, false},
                                   {"bq", SlotKind::kVector, true},
                                   {"bk", SlotKind::kVector, true},
                                   {"bv", SlotKind::kVector, true},
                                   {"q_norm", SlotKind::kVector, true},
                                   {"k_norm", SlotKind::kVector, true},
                                   {"positions", SlotKind::kIndices, false},
                                   {"frequencies", SlotKind::kConstant, false},
                                   {"cache", SlotKind::kCache, false}};

constexpr OpInfo kOpTable[] = {
    {OpKind::kEmbed, "embed", kInEmbed, kOutX, kScaleBit, false},
    {OpKind::kMatMul, "matmul", kInXMatrix, kOutX, 0, false},
    {OpKind::kAddBias, "add_bias", kInXVector, kOutX, 0, false},
    {OpKind::kAdd, "add", kInAb, kOutX, 0, false},
    {OpKind::kMul, "mul", kInAb, kOutX, 0, false},
    {OpKind::kScale, "scale", kInX, kOutX, kScaleBit, false},
    {OpKind::kSilu, "silu", kInX, kOutX, 0, false},
    {OpKind::kGelu, "gelu", kInX, kOutX, 0, false},
    {OpKind::kSoftCap, "soft_cap", kInX, kOutX, kSoftCapBit, false},
    {OpKind::kSquare, "square", kInX, kOutX, 0, false},
    {OpKind::kGroupMean, "group_mean", kInX, kOutX, kGroupBit, false},
    {OpKind::kAddScalar, "add_scalar", kInX, kOutX, kEpsBit, false},
    {OpKind::kRsqrt, "rsqrt", kInX, kOutX, 0, false},
    {OpKind::kMulGroup, "mul_group", kInAb, kOutX, kGroupBit, false},
    {OpKind::kMulWeight, "mul_weight", kInXVector, kOutX, kGroupBit, false},
    {OpKind::kRope, "rope", kInRope, kOutX, kRopeBits, false},
    {OpKind::kKvWrite, "kv_write", kInKvWrite, kOutCache, kLayerBit | kKvHeadsBit | kHeadDimBit,
     false},
    {OpKind::kAttention, "attention", kInAttention, kOutX,
     kScaleBit | kSoftCapBit | kHeadDimBit | kHeadsBit | kKvHeadsBit | kWindowBit | kLayerBit,
     false},
    {OpKind::kSelectRows, "select_rows", kInSelect, kOutX, 0, false},
    {OpKind::kRmsNorm, "rms_norm", kInXVector, kOutX, kEpsBit | kGroupBit, true},
    {OpKind::kNormMatMul, "norm_matmul", kInNormMatMul, kOutX, kEpsBit | kSoftCapBit, true},
    {OpKind::kMatMulAdd, "matmul_add", kInMatMulAdd, kOutX, 0, true},
    {OpKind::kNormAdd, "norm_add", kInNormAdd, kOutX, kEpsBit, true},
    {OpKind::kNormGateUp, "norm_gate_up", kInNormGateUp, kOutX, kEpsBit | kActivationBit, true},
    {OpKind::kNormQkv, "norm_qkv", kInNormQkv, kOutQkv,
     kEpsBit | kRopeBits | kHeadsBit | kKvHeadsBit | kLayerBit, true},
};
static_assert(sizeof(kOpTable) / sizeof(kOpTable[0]) == static_cast<size_t>(OpKind::kCount));

}  // namespace

const OpInfo& GetOpInfo(OpKind kind) {
  const OpInfo& info = kOpTable[static_cast<size_t>(kind)];
  DCHECK(info.kind == kind);
  return info;
}

const OpInfo* FindOpInfo(std::string_view name) {
  for (const OpInfo& info : kOpTable) {
    if (name == info.name) return &info;
  }
  return nullptr;
}

std::span<const AttributeInfo> GetAttributeTable() { return kAttributeTable; }

}  // namespace nonstop
