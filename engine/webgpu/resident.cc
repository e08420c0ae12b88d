#include "webgpu/resident.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <span>
#include <utility>

#include "base/bytes.h"
#include "base/check.h"
#include "base/format.h"
#include "webgpu/attention.h"
#include "webgpu/product.h"
#include "webgpu/weight_layout.h"

namespace nonstop {
namespace {

using enum KernelBinding;

// resident.wgsl's
constexpr uint32_t kWorkgroup = 256;
constexpr uint32_t kHeaderWords = 4 * kMostResidentTeams;
constexpr uint32_t kRanges = 16;
constexpr uint32_t kMostWindows = 3;
constexpr uint32_t kLeastLanes = 8;
constexpr uint32_t kMostLanes = 64;
// Of a team, where there is workgroup memory for so many. With 3 and 4 an invocation needs so many
// registers that a core of an H200 runs one workgroup in place of two: slower than more teams.
constexpr uint32_t kMostTeamRows = 2;
// Rows up to so many have a team each: two of 128 workgroups fill a GPU of 132 cores.
constexpr uint32_t kFewTeams = 2;
// Of rows, so that each workgroup has one.
constexpr uint32_t kMostSets = kMostResidentWorkgroups;
constexpr uint32_t kMatrixCount = 7;
constexpr uint32_t kLayerWords = 16;
constexpr uint32_t kLayerSteps = 5;

constexpr OpKind kLayerOps[kLayerSteps] = {OpKind::kNormQkv, OpKind::kAttention, OpKind::kMatMulAdd,
                                           OpKind::kNormGateUp, OpKind::kMatMulAdd};

// The types whose kernels ask for memory and look at it apart (fetch_…, decode_…).
bool HasFetch(DType dtype) {
  switch (dtype) {
    case DType::kQ4_0:
    case DType::kQ4_1:
    case DType::kQ5_0:
    case DType::kQ5_1:
    case DType::kQ8_0:
    case DType::kQ4_K:
    case DType::kQ5_K:
    case DType::kQ6_K:
      return true;
    default:
      return false;
  }
}

// One of the four products; q, k and v are one.
struct Role {
  std::string_view name;
  uint32_t first_matrix;
  uint32_t matrix_count;
  uint32_t side_by_side;
  uint32_t row_count;  // of all sets
  uint32_t column_count;
  uint32_t least_rows;  // what the rows of a set must divide
  bool has_norm;

  uint32_t block_count() const { return GpuBlockCount(column_count); }
  uint32_t SetCount(uint32_t lanes) const { return DivideRoundUp(row_count * lanes, kWorkgroup); }
  uint32_t lanes() const {
    uint32_t lanes = kLeastLanes;
    while (lanes < kMostLanes && lanes < block_count() && SetCount(2 * lanes) <= kMostSets) {
      lanes *= 2;
    }
    return lanes;
  }
};

struct Teams {
  uint32_t rows;  // of a team
  uint32_t count;
};

class ResidentLowering {
 public:
  ResidentLowering(const GpuModel& model, const Plan& plan, uint32_t row_limit)
      : model_(model), plan_(plan), row_limit_(row_limit) {}

  bool FindLayers();
  bool ReadLayers();
  Result<KernelCall> MakeCall(GpuArenas* arenas);
  uint32_t layer_count() const { return layer_count_; }
  uint32_t first_step() const { return first_step_; }
  uint64_t relay_bytes() const;

 private:
  std::span<const Binding> BindingsOf(uint32_t layer, uint32_t step) const {
    return plan_.BindingsOf(plan_.steps[first_step_ + layer * kLayerSteps + step]);
  }
  const OpAttributes& ParamsOf(uint32_t layer, uint32_t step) const {
    return plan_.params[plan_.steps[first_step_ + layer * kLayerSteps + step].params_index];
  }
  const Value& value(const Binding& binding) const { return plan_.graph.value(binding.value); }
  std::optional<uint32_t> VectorOf(const Binding& binding) const {
    return model_.weights->FindVectorOffset(value(binding).name);
  }
  bool ReadLayer(uint32_t layer);
  bool AddMatrix(uint32_t layer, uint32_t index, const Binding& binding);
  bool AddVector(uint32_t word, const Binding& binding);
  bool IsServed() const;
  uint32_t layer_words() const;
  uint64_t row_words() const;
  uint64_t single_teams_words() const;
  uint32_t workgroup_bytes(uint32_t team_rows) const;
  Teams TeamsOf(uint32_t row_limit) const;
  // Of a subgroup or less, as far as sums are shuffled.
  uint32_t line_count() const { return kWorkgroup / std::min(model_.subgroup_min_size, 32u); }
  uint32_t StagedSize() const;
  std::array<Role, 4> Roles() const;
  void AddRole(const Role& role, KernelSpec* spec) const;

  const GpuModel& model_;
  const Plan& plan_;
  uint32_t row_limit_;
  uint32_t first_step_ = 0;
  uint32_t layer_count_ = 0;
  OpAttributes qkv_ = {};
  OpAttributes attention_ = {};
  OpAttributes ffn_ = {};
  uint32_t columns_ = 0;
  uint32_t ffn_rows_ = 0;
  uint32_t biases_ = 0;  // bits
  std::array<DType, kMatrixCount> dtypes_ = {};
  std::vector<GpuBufferId> windows_;
  std::vector<uint32_t> layer_params_;
  uint32_t frequencies_ = 0;
};

// The run of whole layers that follows the embedding.
bool ResidentLowering::FindLayers() {
  const std::vector<Step>& steps = plan_.steps;
  if (steps.size() < 2 || steps[0].op != OpKind::kEmbed) return false;
  first_step_ = 1;
  size_t at = 1;
  while (at + kLayerSteps <= steps.size()) {
    for (uint32_t i = 0; i < kLayerSteps; ++i) {
      if (steps[at + i].op != kLayerOps[i]) return layer_count_ > 0 && i == 0;
    }
    at += kLayerSteps;
    ++layer_count_;
  }
  return layer_count_ > 0;
}

bool ResidentLowering::AddMatrix(uint32_t layer, uint32_t index, const Binding& binding) {
  const Value& weight = value(binding);
  const GpuMatrix* whole = model_.weights->FindMatrix(weight.name);
  if (whole == nullptr || weight.row_begin % kGpuGroupRows != 0) return false;
  const GpuMatrix matrix = weight.row_count == whole->row_count
                               ? *whole
                               : SliceRows(*whole, weight.row_begin, weight.row_count);
  if (matrix.parts.size() != 1 || !HasFetch(matrix.dtype)) return false;
  if (layer == 0) dtypes_[index] = matrix.dtype;
  if (dtypes_[index] != matrix.dtype) return false;
  const GpuMatrixPart& part = matrix.parts[0];
  auto found = std::find(windows_.begin(), windows_.end(), part.window);
  const auto slot = static_cast<uint32_t>(found - windows_.begin());
  if (found == windows_.end()) windows_.push_back(part.window);
  uint32_t* words = &layer_params_[layer * kLayerWords];
  words[index] = part.base;
  words[7] |= slot << (2 * index);
  return windows_.size() <= kMostWindows;
}

bool ResidentLowering::AddVector(uint32_t word, const Binding& binding) {
  const std::optional<uint32_t> offset = VectorOf(binding);
  if (!offset) return false;
  layer_params_[word] = *offset;
  return true;
}

bool ResidentLowering::ReadLayer(uint32_t layer) {
  const OpAttributes& qkv = ParamsOf(layer, 0);
  const OpAttributes& attention = ParamsOf(layer, 1);
  const auto in = BindingsOf(layer, 0);
  const auto gate = BindingsOf(layer, 3);
  if (layer == 0) {
    qkv_ = qkv;
    attention_ = attention;
    ffn_ = ParamsOf(layer, 3);
    columns_ = value(in[0]).width;
    ffn_rows_ = value(gate[2]).row_count;
    const std::optional<uint32_t> frequencies = VectorOf(in[11]);
    if (!frequencies) return false;
    frequencies_ = *frequencies;
  }
  const bool is_alike = qkv.head_dim == qkv_.head_dim && qkv.rotated_dim == qkv_.rotated_dim &&
                        attention.window == attention_.window && VectorOf(in[11]) == frequencies_ &&
                        in[8].value == kNoValue;
  if (!is_alike) return false;
  const uint32_t first = layer * kLayerWords;
  for (uint32_t i = 0; i < 3; ++i) {
    if (!AddMatrix(layer, i, in[2 + i])) return false;
    if (in[5 + i].value == kNoValue) continue;
    biases_ |= 1u << i;
    if (!AddVector(first + 10 + i, in[5 + i])) return false;
  }
  const CachePlace cache = model_.cache->PlaceOf(layer);
  layer_params_[first + 13] = cache.offset;
  layer_params_[first + 14] = cache.page_words;
  return AddVector(first + 8, in[1]) && AddVector(first + 9, gate[1]) &&
         AddMatrix(layer, 3, BindingsOf(layer, 2)[1]) && AddMatrix(layer, 4, gate[2]) &&
         AddMatrix(layer, 5, gate[3]) && AddMatrix(layer, 6, BindingsOf(layer, 4)[1]);
}

bool ResidentLowering::ReadLayers() {
  layer_params_.resize(layer_count_ * kLayerWords);
  for (uint32_t layer = 0; layer < layer_count_; ++layer) {
    if (!ReadLayer(layer)) return false;
  }
  return IsServed();
}

std::array<Role, 4> ResidentLowering::Roles() const {
  const uint32_t q_rows = qkv_.head_count * qkv_.head_dim;
  const uint32_t kv_rows = qkv_.kv_head_count * qkv_.head_dim;
  return {{{"qkv", 0, 3, 1, q_rows + 2 * kv_rows, columns_, std::gcd(q_rows, kv_rows), true},
           {"o", 3, 1, 1, columns_, q_rows, columns_, false},
           {"gate", 4, 2, 2, ffn_rows_, columns_, ffn_rows_, true},
           {"down", 6, 1, 1, columns_, ffn_rows_, columns_, false}}};
}

bool ResidentLowering::IsServed() const {
  const uint32_t lanes_token = qkv_.head_dim / 8;
  if (qkv_.head_dim % 8 != 0 || !std::has_single_bit(lanes_token)) return false;
  if (lanes_token > model_.subgroup_min_size || model_.cache->group_count() != 1) return false;
  const GpuLimits& limits = model_.gpu->adapter().limits;
  if (limits.max_workgroup_storage_bytes < workgroup_bytes(1) ||
      limits.max_storage_binding_size_bytes < relay_bytes()) {
    return false;
  }
  if (plan_.limits.token_rows > kMostResidentRows) return false;
  for (const Role& role : Roles()) {
    if (role.column_count % kGpuBlockColumns != 0) return false;
    if (role.least_rows % (kWorkgroup / role.lanes()) != 0) return false;
  }
  return true;
}

// Elements of resident.wgsl's xs: products' inputs, behind those of o what attention's parts weigh;
// or attention's sums.
uint32_t ResidentLowering::StagedSize() const {
  uint32_t size = line_count() * qkv_.head_dim;
  for (const Role& role : Roles()) {
    const uint32_t parts = role.name == "o" ? 3 * kRanges * qkv_.head_count : 0;
    size = std::max(size, (role.block_count() | 1) * kGpuBlockColumns + parts);
  }
  return size;
}

// What resident.wgsl declares.
uint32_t ResidentLowering::workgroup_bytes(uint32_t team_rows) const {
  const uint32_t partials = kWorkgroup / std::min(model_.subgroup_min_size, kLeastLanes);
  const uint32_t of_row = StagedSize() + 2 * partials + line_count() + qkv_.head_dim;
  const uint32_t words =
      team_rows * of_row + layer_count_ * kLayerWords + 3 * qkv_.head_dim + 2 * line_count() + 8;
  return words * sizeof(uint32_t);
}

// What the teams of programs for so many rows are like.
Teams ResidentLowering::TeamsOf(uint32_t row_limit) const {
  const bool has_room = workgroup_bytes(kMostTeamRows) <= model_.workgroup_bytes;
  const uint32_t rows = row_limit > kFewTeams && has_room ? kMostTeamRows : 1;
  return {rows, std::max(std::min(kFewTeams, row_limit), DivideRoundUp(row_limit, rows))};
}

uint32_t ResidentLowering::layer_words() const {
  return (qkv_.head_count + 2 * qkv_.kv_head_count) * qkv_.head_dim +
         kRanges * qkv_.head_count * (qkv_.head_dim + 2) + 2 * columns_ + ffn_rows_;
}
// Both halves.
uint64_t ResidentLowering::row_words() const { return uint64_t{2} * layer_count_ * layer_words(); }
// Of the programs whose teams have one row, if those for more rows are others.
uint64_t ResidentLowering::single_teams_words() const {
  return TeamsOf(plan_.limits.token_rows).rows > 1 ? row_words() * kFewTeams : 0;
}
uint64_t ResidentLowering::relay_bytes() const {
  const Teams most = TeamsOf(plan_.limits.token_rows);
  const uint64_t words = single_teams_words() + row_words() * most.rows * most.count;
  return (kHeaderWords + words) * sizeof(uint32_t);
}

void ResidentLowering::AddRole(const Role& role, KernelSpec* spec) const {
  const std::string name(role.name);
  AppendFormat(spec->glue,
               "const COLUMNS_%s = %uu;\nconst SET_ROWS_%s = %uu;\nconst LANES_%s = %uu;\n"
               "const MATRICES_%s = %uu;\nconst HAS_NORM_%s = %uu;\n",
               name.c_str(), role.column_count, name.c_str(), role.row_count, name.c_str(),
               role.lanes(), name.c_str(), role.side_by_side, name.c_str(), role.has_norm ? 1 : 0);
  std::string fetch =
      Format("fn fetch_%s(matrix: u32, window: u32, base: u32, row: u32, block: u32) -> Raw {\n",
             name.c_str());
  std::string decode = Format("fn decode_%s(matrix: u32, raw: Raw) -> Block {\n", name.c_str());
  for (uint32_t i = role.first_matrix + role.matrix_count; i-- > role.first_matrix;) {
    const DType dtype = dtypes_[i];
    if (i > role.first_matrix && dtype == dtypes_[role.first_matrix]) continue;
    const std::string condition =
        i > role.first_matrix ? Format("if matrix == %uu ", i) : std::string();
    const std::string type(GetWeightPlanes(dtype).name);
    const uint32_t blocks = GpuBlockCount(role.column_count);
    fetch += condition;
    AppendFormat(
        fetch,
        "{ return fetch_%s(window, base + row / 8u * %uu, row %% 8u * %uu + block, %uu); }\n",
        type.c_str(), GpuGroupSizeBytes(dtype, role.column_count) / 16, blocks, blocks);
    decode += condition;
    AppendFormat(decode, "{ return decode_%s(raw); }\n", type.c_str());
  }
  spec->glue += fetch + "}\n" + decode + "}\n";
  spec->templates.push_back({"resident_product", role.name});
  if (role.name != "o") spec->templates.push_back({"resident_stage", role.name});
}

Result<KernelCall> ResidentLowering::MakeCall(GpuArenas* arenas) {
  const Binding& y = BindingsOf(layer_count_ - 1, 4).back();
  KernelCall call;
  call.out = {arenas->arena(y.arena), static_cast<uint32_t>(y.offset_bytes / sizeof(float))};
  KernelSpec spec{.name = "resident"};
  const Teams teams = TeamsOf(row_limit_);
  const std::pair<const char*, uint32_t> numbers[] = {
      {"LEAST_LANES", kLeastLanes},
      {"RANGES", kRanges},
      {"COLUMNS", columns_},
      {"LAYERS", layer_count_},
      {"Q_ROWS", qkv_.head_count * qkv_.head_dim},
      {"KV_ROWS", qkv_.kv_head_count * qkv_.head_dim},
      {"FFN", ffn_rows_},
      {"HEADS", qkv_.head_count},
      {"XS", StagedSize()},
      {"BIASES", biases_},
      {"LEAST_WIDTH", model_.subgroup_min_size},
      {"ROTATED_DIM", qkv_.rotated_dim},
      {"ROPE_HALVES", qkv_.rope_halves},
      {"HAS_SOFT_CAP", attention_.soft_cap != 0.0f},
      {"WINDOW", attention_.window},
  };
  for (const auto& [name, number] : numbers) {
    spec.constants.push_back(KernelConstant::Uint(name, number));
  }
  const std::pair<const char*, float> floats[] = {
      {"ROPE_MAGNITUDE", qkv_.rope_magnitude},
      {"EPS", qkv_.eps},
      {"SCALE", attention_.scale},
      {"SOFT_CAP", attention_.soft_cap},
  };
  for (const auto& [name, number] : floats) {
    spec.constants.push_back(KernelConstant::Float(name, number));
  }
  AddStateConstants(model_.layout.shape, &spec.constants);
  std::array<uint32_t, 16> cache_params = {};
  AddCache(model_.cache->PlaceOf(0), &spec.constants, &cache_params);
  spec.bindings = {kActivationsOut, kVectors, kCacheOut4, kState, kRelay, kParams};
  for (uint32_t i = 0; i < windows_.size(); ++i) {
    spec.bindings.push_back(static_cast<KernelBinding>(static_cast<uint32_t>(kWeights0) + i));
  }
  constexpr std::string_view kWindowFiles[] = {"weights_1", "weights_2", "weights_3"};
  spec.files = {"state", "dtype", kWindowFiles[windows_.size() - 1],
                teams.rows > 1 ? "team_2" : "team_1"};
  for (DType dtype : dtypes_) {
    const std::string_view file = GetWeightPlanes(dtype).file;
    if (std::find(spec.files.begin(), spec.files.end(), file) == spec.files.end()) {
      spec.files.push_back(file);
    }
  }
  const bool is_gelu = ffn_.activation == static_cast<uint32_t>(Activation::kGelu);
  if (is_gelu) spec.files.push_back("tanh");
  spec.files.insert(
      spec.files.end(),
      {is_gelu ? "epilogue_gelu" : "epilogue_silu", "rope", "rope_pairs", "half", "kv", "kv_read",
       "kv_write8", "attention_range", "attention_parts", "attention_score", "resident"});
  for (const Role& role : Roles()) AddRole(role, &spec);
  spec.uses_subgroups = true;
  spec.param_vectors = (1 + layer_count_) * kLayerWords / 4;
  call.windows = windows_;
  call.params[0] = call.out.offset;
  call.params[1] = frequencies_;
  if (teams.rows > 1) {
    call.params[2] = kMostResidentRows;
    call.params[3] = static_cast<uint32_t>(single_teams_words());
  }
  call.more_params = layer_params_;
  call.is_optional = true;
  call.workload = {.fixed_count = kMostResidentWorkgroups, .team_rows = teams.rows};
  TRY(arenas->AllocateRelay(relay_bytes()));
  ComposeCall(std::move(spec), &call);
  return call;
}

}  // namespace

Result<std::optional<ResidentCall>> LowerResident(const GpuModel& model, const Plan& plan,
                                                  uint32_t row_limit, GpuArenas* arenas) {
  if (!model.uses_subgroups) return std::optional<ResidentCall>();
  ResidentLowering lowering(model, plan, row_limit);
  if (!lowering.FindLayers() || !lowering.ReadLayers()) return std::optional<ResidentCall>();
  ResidentCall resident;
  ASSIGN_OR_RETURN(resident.call, lowering.MakeCall(arenas));
  resident.first_step = lowering.first_step();
  resident.end_step = resident.first_step + lowering.layer_count() * kLayerSteps;
  resident.x = resident.call.out;
  return std::optional<ResidentCall>(std::move(resident));
}

}  // namespace nonstop
