#include "webgpu/product.h"

#include <algorithm>
#include <bit>

#include "base/bytes.h"
#include "base/check.h"
#include "base/format.h"
#include "webgpu/weight_layout.h"

namespace nonstop {
namespace {

constexpr uint32_t kWindowSlots = 3;

// matmul.wgsl's
constexpr uint32_t kTileTokens = 32;
constexpr uint32_t kTileBlocks = 64;       // of weights, of all rows and columns of a step
constexpr uint32_t kManyTileBlocks = 128;  // where a workgroup has much memory
constexpr uint32_t kManyTileRows = 64;
constexpr uint32_t kFewTileRows = 32;

// A matrix of so many rows keeps a large GPU busy whatever the shape of a workgroup's share.
constexpr uint32_t kManyRows = 16'384;
constexpr uint32_t kManyTiles = 256;

constexpr uint32_t kMostPartsBytes = 7168;

constexpr uint32_t kLeastSubgroup = 4;  // of any device
constexpr uint32_t kMuchMemory = 32'768;

bool IsMatvec(const ProductShape& shape) { return shape.row_limit <= kMatvecRowLimit; }
bool IsQkv(ProductKind kind) { return kind == ProductKind::kQkv || kind == ProductKind::kQkvRows; }

// How matvec.wgsl is cut: its constants of the same names.
struct MatvecShape {
  uint32_t tokens;
  uint32_t lanes;
  uint32_t workgroup;
  uint32_t chunk;  // blocks

  uint32_t rows() const { return workgroup / lanes; }
};

// What x_attention.wgsl takes of workgroup memory.
uint32_t PartsBytes(const AttentionParts& parts) {
  return std::bit_ceil(parts.row_limit) * (parts.head_count * parts.range_count * 12 + 4);
}

// Matrices that each workgroup multiplies side by side.
uint32_t SideBySide(const ProductShape& shape) {
  return shape.kind == ProductKind::kGateUp ? 2 : 1;
}

// Places for the sums of a row's lanes, and one that keeps lines in different banks.
uint32_t LineWidth(const ProductShape& shape, uint32_t lanes) {
  const bool is_added_in_part = shape.uses_subgroups && shape.row_limit > 1;
  return (is_added_in_part ? lanes / kLeastSubgroup : lanes) + 1;
}

// Blocks of x that fit in workgroup memory beside the sums; 0: the sums alone are too large.
uint32_t FittingChunk(const ProductShape& shape, const MatvecShape& matvec) {
  const uint32_t outputs = matvec.rows() * matvec.tokens;
  const uint32_t line = LineWidth(shape, matvec.lanes);
  const uint32_t sums_bytes =
      4 * (SideBySide(shape) * outputs * line + matvec.workgroup + matvec.tokens * line) +
      (shape.x_parts ? PartsBytes(*shape.x_parts) : 0);
  const uint32_t block_bytes = matvec.tokens * kGpuBlockColumns * 4;
  if (sums_bytes + block_bytes > shape.workgroup_bytes) return 0;
  // The stride is odd: of an even number of blocks one more.
  const uint32_t fitting = (shape.workgroup_bytes - sums_bytes) / block_bytes;
  const uint32_t odd = fitting % 2 == 1 ? fitting : fitting - 1;
  const uint32_t blocks = GpuBlockCount(shape.column_count);
  if (blocks <= odd) return blocks;
  // Whole rounds of the lanes, so that none idles at a chunk's end; else chunks of a size.
  if (odd >= matvec.lanes) return odd / matvec.lanes * matvec.lanes;
  return DivideRoundUp(blocks, DivideRoundUp(blocks, odd));
}

// Of 3 to 8 tokens, what is read of workgroup memory is the limit: lanes of several rows that read
// the same of x share it, so rows have few. Not where parts of x take most of the memory, or where
// it is small: more rows then cost more than they share.
uint32_t LanesOfManyTokens(const ProductShape& shape) {
  if (shape.kind == ProductKind::kGateUp) return 8;
  return shape.x_parts && shape.workgroup_bytes >= kMuchMemory ? 32 : 16;
}

// Where rows are few, all is latency: one round a lane if that can be, though some idle. Where they
// are many, no lane should idle. Without shuffles lanes are summed one by one, so they are not
// many.
uint32_t ChooseLanes(const ProductShape& shape, uint32_t tokens) {
  const uint32_t blocks = GpuBlockCount(shape.column_count);
  uint32_t lanes = 4;
  if (shape.has_many_rows && (tokens == 1 || shape.uses_subgroups)) {
    while (lanes < 16 && blocks % (lanes * 2) == 0) lanes *= 2;
  } else if (shape.uses_subgroups) {
    const uint32_t most = tokens >= 4 ? LanesOfManyTokens(shape) : 64 / tokens;
    while (lanes < most && lanes < blocks) lanes *= 2;
  } else {
    const uint32_t most = tokens == 1 ? 32 : 8;
    while (lanes < most && lanes * 2 < blocks) lanes *= 2;
  }
  return lanes;
}

MatvecShape ChooseMatvec(const ProductShape& shape) {
  MatvecShape matvec = {.tokens = 1, .lanes = 0, .workgroup = 128, .chunk = 0};
  while (matvec.tokens < shape.row_limit) matvec.tokens *= 2;
  matvec.lanes = ChooseLanes(shape, matvec.tokens);
  // What is put together before is put together for more rows.
  const bool shares_parts = shape.x_parts && (matvec.tokens == 1 || matvec.lanes == 32);
  if (matvec.tokens == 1 && shape.has_many_rows) matvec.workgroup = 64;
  if (shares_parts || matvec.lanes == 64) matvec.workgroup = 256;
  matvec.chunk = FittingChunk(shape, matvec);
  if (!shape.uses_subgroups &&
      matvec.chunk < std::min(matvec.lanes, GpuBlockCount(shape.column_count))) {
    matvec.workgroup = 64;
    matvec.chunk = FittingChunk(shape, matvec);
  }
  CHECK(matvec.chunk > 0);
  return matvec;
}

// Fewer rows make more workgroups, of fewer steps.
uint32_t TileRows(const ProductShape& shape) {
  return shape.has_many_tiles ? kManyTileRows : kFewTileRows;
}

// Sets of rows that matvec.wgsl's workgroups take, of all matrices.
uint32_t RowSetCount(const ProductShape& shape, uint32_t row_count, uint32_t set_rows) {
  if (!IsQkv(shape.kind)) return DivideRoundUp(row_count, set_rows);
  uint32_t count = 0;
  for (uint32_t rows : shape.row_counts) count += DivideRoundUp(rows, set_rows);
  return count;
}

std::string_view WindowFile(uint32_t window_count) {
  constexpr std::string_view kFiles[] = {"weights_1", "weights_2", "weights_3"};
  return kFiles[window_count - 1];
}

KernelBinding WeightBinding(uint32_t slot) {
  return static_cast<KernelBinding>(static_cast<uint32_t>(KernelBinding::kWeights0) + slot);
}

// dtype_x of every type there is, once.
void AddTypeFiles(std::span<const DType> dtypes, std::vector<std::string_view>* files) {
  for (DType dtype : dtypes) {
    const std::string_view file = GetWeightPlanes(dtype).file;
    if (std::find(files->begin(), files->end(), file) == files->end()) files->push_back(file);
  }
}

std::string UpperName(DType dtype) {
  std::string name(GetWeightPlanes(dtype).name);
  for (char& letter : name) letter = letter >= 'a' && letter <= 'z' ? letter - 'a' + 'A' : letter;
  return name;
}

std::string LoadBlockCall(DType dtype, const std::string& slot) {
  return Format("load_block_%s(%s, base + row / 8u * %s_GROUP, row %% 8u * BLOCKS + block)",
                std::string(GetWeightPlanes(dtype).name).c_str(), slot.c_str(),
                UpperName(dtype).c_str());
}

// load_matrix(matrix, row, block), which picks the type and window of each matrix.
std::string LoadMatrixGlue(const ProductShape& shape) {
  std::string glue =
      "fn load_matrix(matrix: u32, row: u32, block: u32) -> Block {\n"
      "let base = param(4u + matrix);\n";
  for (uint32_t i = 1; i < shape.matrix_count; ++i) {
    if (shape.dtypes[i] == shape.dtypes[0] && shape.slots[i] == shape.slots[0]) continue;
    glue += Format("if matrix == %uu { return %s; }\n", i,
                   LoadBlockCall(shape.dtypes[i], Format("%uu", shape.slots[i])).c_str());
  }
  const std::string first = LoadBlockCall(shape.dtypes[0], Format("%uu", shape.slots[0]));
  return glue + "return " + first + ";\n}\n";
}

bool HasVec4Rows(const ProductShape& shape) { return shape.column_count % 4 == 0; }

// How x is read.
void AddInputFiles(const ProductShape& shape, KernelSpec* spec) {
  if (!shape.x_parts) {
    spec->files.push_back(HasVec4Rows(shape) ? "x_vec4" : "x_scalar");
    return;
  }
  const AttentionParts& parts = *shape.x_parts;
  spec->constants.push_back(KernelConstant::Uint("HEADS", parts.head_count));
  spec->constants.push_back(KernelConstant::Uint("HEAD_DIM", parts.head_dim));
  spec->constants.push_back(KernelConstant::Uint("WINDOW", parts.window));
  AddPartsConstants(parts, &spec->constants);
  spec->files.insert(spec->files.end(), {"attention_range", "attention_parts", "x_attention"});
}

void AddEpilogueFiles(const ProductShape& shape, std::vector<std::string_view>* files) {
  switch (shape.kind) {
    case ProductKind::kAdd:
      files->push_back(shape.residual_is_apart ? "epilogue_add_apart" : "epilogue_add");
      return;
    case ProductKind::kGateUp:
      if (shape.activation == Activation::kGelu) {
        files->insert(files->end(), {"tanh", "epilogue_gelu"});
      } else {
        files->push_back("epilogue_silu");
      }
      return;
    default:
      if (shape.soft_cap != 0.0f) {
        files->insert(files->end(), {"tanh", "epilogue_soft_cap"});
      } else {
        files->push_back("epilogue_plain");
      }
  }
}

void AddQkvConstants(const ProductShape& shape, std::vector<KernelConstant>* constants) {
  uint32_t biases = 0;
  for (uint32_t i = 0; i < 3; ++i) biases |= shape.has_bias[i] ? 1u << i : 0;
  constants->insert(constants->end(), {
                                          KernelConstant::Uint("Q_ROWS", shape.row_counts[0]),
                                          KernelConstant::Uint("KV_ROWS", shape.row_counts[1]),
                                          KernelConstant::Uint("BIASES", biases),
                                      });
  if (shape.kind != ProductKind::kQkv) return;
  constants->insert(constants->end(),
                    {
                        KernelConstant::Uint("HEAD_DIM", shape.head_dim),
                        KernelConstant::Uint("ROTATED", shape.rotated_dim),
                        KernelConstant::Uint("ROPE_HALVES", shape.rope_halves ? 1 : 0),
                        KernelConstant::Float("ROPE_MAGNITUDE", shape.rope_magnitude),
                        KernelConstant::Uint("KV_F32", shape.kv_is_f32 ? 1 : 0),
                    });
}

// What is rows of one matrix or of three, and what becomes of a product.
void AddOutputFiles(const ProductShape& shape, KernelSpec* spec) {
  if (shape.kind == ProductKind::kQkvRows) {
    spec->files.insert(spec->files.end(), {"rows_qkv", "rows_in_order"});
  } else {
    spec->files.push_back("rows_one");
  }
  AddEpilogueFiles(shape, &spec->files);
}

void AddMatvec(const ProductShape& shape, KernelSpec* spec) {
  const MatvecShape matvec = ChooseMatvec(shape);
  spec->constants.insert(spec->constants.end(),
                         {
                             KernelConstant::Uint("TOKENS", matvec.tokens),
                             KernelConstant::Uint("LANES", matvec.lanes),
                             KernelConstant::Uint("WORKGROUP", matvec.workgroup),
                             KernelConstant::Uint("CHUNK", matvec.chunk),
                             KernelConstant::Uint("LINE", LineWidth(shape, matvec.lanes)),
                             KernelConstant::Uint("HAS_NORM", shape.has_norm ? 1 : 0),
                             KernelConstant::Float("EPS", shape.eps),
                         });
  spec->files.insert(spec->files.end(), {matvec.tokens == 1 ? "matvec_one" : "matvec",
                                         shape.uses_subgroups ? "matvec_subgroups" : "matvec_lanes",
                                         shape.has_norm ? "norm_rms" : "norm_none"});
  spec->uses_subgroups = shape.uses_subgroups;
  if (shape.kind == ProductKind::kQkv) {
    spec->files.insert(spec->files.end(), {"rows_qkv", "rope", "matvec_qkv"});
  } else {
    spec->files.push_back("matvec_finish");
    AddOutputFiles(shape, spec);
  }
}

void AddTiles(const ProductShape& shape, KernelSpec* spec) {
  // Few workgroups need more invocations, and more columns at a time.
  const bool has_memory = shape.workgroup_bytes >= kMuchMemory && !shape.has_many_tiles;
  const uint32_t blocks = has_memory ? kManyTileBlocks : kTileBlocks;
  spec->constants.push_back(KernelConstant::Uint("WORKGROUP", shape.has_many_tiles ? 128 : 256));
  spec->constants.push_back(KernelConstant::Uint("TILE_ROWS", TileRows(shape)));
  spec->constants.push_back(KernelConstant::Uint("STEP_BLOCKS", blocks / TileRows(shape)));
  spec->files.push_back("matmul");
  AddOutputFiles(shape, spec);
}

bool UsesVectors(const ProductShape& shape) {
  return shape.has_norm || IsQkv(shape.kind);  // whose rows may have biases
}

ProductShape ShapeOf(const ProductOp& op) {
  ProductShape shape;
  shape.kind = op.kind;
  shape.column_count = op.matrices[0].column_count;
  shape.matrix_count = static_cast<uint8_t>(op.matrices.size());
  for (size_t i = 0; i < op.matrices.size(); ++i) {
    shape.dtypes[i] = op.matrices[i].dtype;
    if (IsQkv(op.kind)) {
      shape.row_counts[i] = op.matrices[i].row_count;
      shape.has_bias[i] = op.bias_offsets[i] != kNoOffset;
    }
  }
  uint32_t tile_rows = 0;
  for (const GpuMatrix& matrix : op.matrices) tile_rows += matrix.row_count;
  shape.has_many_rows = tile_rows >= kManyRows;
  shape.has_many_tiles = uint64_t{DivideRoundUp(tile_rows, kManyTileRows)} *
                             DivideRoundUp(op.row_limit, kTileTokens) >=
                         kManyTiles;
  shape.row_limit = op.row_limit;
  shape.row_space = op.row_space;
  shape.state = op.state;
  shape.uses_subgroups = op.uses_subgroups && op.row_limit <= kMatvecRowLimit;
  // Where rows are many, or one token's x is little, more workgroups at a time serve better than
  // more memory.
  if (!shape.has_many_rows && op.row_limit > 1) shape.workgroup_bytes = op.workgroup_bytes;
  shape.residual_is_apart = op.residual_offset != kNoOffset;
  shape.has_norm = op.norm_offset != kNoOffset;
  shape.eps = shape.has_norm ? op.eps : 0.0f;
  shape.x_parts = op.x_parts;
  shape.activation = op.activation;
  shape.soft_cap = op.soft_cap;
  if (op.kind == ProductKind::kQkv) {
    shape.head_dim = op.head_dim;
    shape.rotated_dim = op.rotated_dim;
    shape.rope_halves = op.rope_halves;
    shape.rope_magnitude = op.rope_magnitude;
    shape.kv_is_f32 = op.kv_is_f32;
  }
  return shape;
}

std::array<uint32_t, 16> ParamsOf(const ProductOp& op) {
  std::array<uint32_t, 16> params = {};
  params[0] = op.x_offset;
  params[1] = op.y_offset;
  params[2] = op.y_width;
  params[3] = op.norm_offset;
  for (size_t i = 0; i < 3; ++i) params[9 + i] = op.bias_offsets[i];
  params[12] = op.frequencies_offset;
  params[13] = op.cache_offset;
  params[14] = op.page_words;
  params[15] = op.residual_offset;
  return params;
}

bool AreCutAlike(const GpuMatrix& a, const GpuMatrix& b) {
  return std::equal(a.parts.begin(), a.parts.end(), b.parts.begin(), b.parts.end(),
                    [](const GpuMatrixPart& one, const GpuMatrixPart& other) {
                      return one.row_begin == other.row_begin && one.row_count == other.row_count;
                    });
}

Status CheckOp(const ProductOp& op) {
  const size_t wanted = IsQkv(op.kind) ? 3 : op.kind == ProductKind::kGateUp ? 2 : 1;
  CHECK(op.matrices.size() == wanted && op.row_limit > 0);
  const GpuMatrix& first = op.matrices[0];
  for (const GpuMatrix& matrix : op.matrices) {
    CHECK(matrix.column_count == first.column_count);
    const bool is_served = IsQkv(op.kind) ? matrix.parts.size() == 1 : AreCutAlike(first, matrix);
    if (!is_served) {
      return MakeError(ErrorCode::kBackendFailed,
                       "A matrix of (%u, %u) is larger than a GPU buffer may be.", matrix.row_count,
                       matrix.column_count);
    }
  }
  if (IsQkv(op.kind)) CHECK(op.matrices[1].row_count == op.matrices[2].row_count);
  if (op.kind == ProductKind::kQkv) CHECK(CanFuseRope(op.head_dim, op.rotated_dim));
  if (op.x_parts) CHECK(CanReadParts(*op.x_parts) && op.x_offset == 0);
  if (op.row_limit > kMatvecRowLimit) {
    CHECK(op.kind != ProductKind::kQkv && op.norm_offset == kNoOffset && !op.x_parts);
  }
  return {};
}

// The slot of a window among those bound, which gets it if it is new.
uint8_t SlotOf(GpuBufferId window, std::vector<GpuBufferId>* windows) {
  const auto found = std::find(windows->begin(), windows->end(), window);
  const auto slot = static_cast<uint8_t>(found - windows->begin());
  if (found == windows->end()) windows->push_back(window);
  return slot;
}

ProductDispatch DispatchOfPart(const ProductOp& op, size_t part_index) {
  ProductDispatch dispatch;
  dispatch.shape = ShapeOf(op);
  dispatch.params = ParamsOf(op);
  for (size_t i = 0; i < op.matrices.size(); ++i) {
    const GpuMatrixPart& part = op.matrices[i].parts[part_index];
    dispatch.shape.slots[i] = SlotOf(part.window, &dispatch.windows);
    dispatch.params[4 + i] = part.base;
  }
  dispatch.shape.window_count = static_cast<uint8_t>(dispatch.windows.size());
  const GpuMatrixPart& first = op.matrices[0].parts[part_index];
  dispatch.params[7] = first.row_begin;
  dispatch.params[8] = dispatch.row_count = first.row_count;
  return dispatch;
}

}  // namespace

bool CanFuseRope(uint32_t head_dim, uint32_t rotated_dim) {
  return head_dim % 4 == 0 && rotated_dim % 4 == 0;
}

bool CanReadParts(const AttentionParts& parts) {
  return parts.head_dim % 4 == 0 && PartsBytes(parts) <= kMostPartsBytes;
}

std::array<uint32_t, 3> ProductDispatch::Workgroups(uint32_t token_rows) const {
  CHECK(token_rows > 0 && token_rows <= shape.row_limit);
  if (!IsMatvec(shape)) {
    return {RowSetCount(shape, row_count, TileRows(shape) / SideBySide(shape)),
            DivideRoundUp(token_rows, kTileTokens), 1};
  }
  const MatvecShape matvec = ChooseMatvec(shape);
  return SpreadWorkgroups(RowSetCount(shape, row_count, matvec.rows()));
}

Result<std::vector<ProductDispatch>> LowerProduct(const ProductOp& op) {
  TRY(CheckOp(op));
  std::vector<ProductDispatch> dispatches;
  for (size_t i = 0; i < op.matrices[0].parts.size(); ++i) {
    dispatches.push_back(DispatchOfPart(op, i));
  }
  return dispatches;
}

std::vector<KernelBinding> ProductBindings(const ProductShape& shape) {
  std::vector<KernelBinding> bindings = {HasVec4Rows(shape) ? KernelBinding::kActivationsIn4
                                                            : KernelBinding::kActivationsIn};
  if (shape.residual_is_apart) bindings.push_back(KernelBinding::kActivationsIn2);
  bindings.push_back(KernelBinding::kActivationsOut);
  for (uint32_t i = 0; i < shape.window_count; ++i) bindings.push_back(WeightBinding(i));
  if (UsesVectors(shape)) bindings.push_back(KernelBinding::kVectors);
  if (shape.kind == ProductKind::kQkv) bindings.push_back(KernelBinding::kCacheOut);
  bindings.push_back(KernelBinding::kState);
  bindings.push_back(KernelBinding::kParams);
  return bindings;
}

KernelSource MakeProductKernel(const ProductShape& shape) {
  KernelSpec spec;
  spec.name = Format("product_%u_%ux%u", static_cast<uint32_t>(shape.kind), shape.row_limit,
                     shape.column_count);
  spec.constants = {KernelConstant::Uint("COLUMNS", shape.column_count)};
  AddStateConstants(shape.state, &spec.constants);
  if (IsQkv(shape.kind)) AddQkvConstants(shape, &spec.constants);
  if (shape.soft_cap != 0.0f) {
    spec.constants.push_back(KernelConstant::Float("SOFT_CAP", shape.soft_cap));
  }
  spec.bindings = ProductBindings(shape);
  spec.files = {"state", shape.row_space == RowSpace::kTokens ? "run_tokens" : "run_outputs"};
  AddInputFiles(shape, &spec);
  spec.files.insert(spec.files.end(), {"dtype", WindowFile(shape.window_count)});
  AddTypeFiles(std::span(shape.dtypes).first(shape.matrix_count), &spec.files);
  spec.glue = LoadMatrixGlue(shape);
  spec.constants.push_back(KernelConstant::Uint("MATRICES", SideBySide(shape)));
  if (IsMatvec(shape)) {
    AddMatvec(shape, &spec);
  } else {
    AddTiles(shape, &spec);
  }
  return ComposeKernel(spec);
}

std::array<uint32_t, 3> EmbedDispatch::Workgroups(uint32_t token_rows) const {
  return {DivideRoundUp(token_rows * GpuBlockCount(shape.column_count), 64u), 1, 1};
}

Result<std::vector<EmbedDispatch>> LowerEmbed(const EmbedOp& op) {
  std::vector<EmbedDispatch> dispatches;
  const std::vector<GpuMatrixPart>& parts = op.table->parts;
  for (size_t begin = 0; begin < parts.size(); begin += kWindowSlots) {
    const size_t count = std::min<size_t>(kWindowSlots, parts.size() - begin);
    EmbedDispatch dispatch;
    dispatch.shape = {.dtype = op.table->dtype,
                      .column_count = op.table->column_count,
                      .window_count = static_cast<uint32_t>(count),
                      .scale = op.scale,
                      .state = op.state};
    dispatch.params[0] = op.y_offset;
    const GpuMatrixPart& last = parts[begin + count - 1];
    for (size_t i = 0; i < kWindowSlots; ++i) {
      const bool is_there = i < count;
      dispatch.params[1 + i] = is_there ? parts[begin + i].base : 0;
      dispatch.params[4 + i] =
          is_there ? parts[begin + i].row_begin : last.row_begin + last.row_count;
      if (is_there) dispatch.windows.push_back(parts[begin + i].window);
    }
    dispatch.params[7] = last.row_begin + last.row_count;
    dispatches.push_back(std::move(dispatch));
  }
  return dispatches;
}

std::vector<KernelBinding> EmbedBindings(const EmbedShape& shape) {
  std::vector<KernelBinding> bindings = {KernelBinding::kActivationsOut};
  for (uint32_t i = 0; i < shape.window_count; ++i) bindings.push_back(WeightBinding(i));
  bindings.insert(bindings.end(), {KernelBinding::kState, KernelBinding::kParams});
  return bindings;
}

KernelSource MakeEmbedKernel(const EmbedShape& shape) {
  KernelSpec spec;
  spec.name = Format("embed_%u", shape.column_count);
  spec.constants = {KernelConstant::Uint("COLUMNS", shape.column_count),
                    KernelConstant::Float("SCALE", shape.scale)};
  AddStateConstants(shape.state, &spec.constants);
  spec.bindings = EmbedBindings(shape);
  spec.files = {"state", "dtype", WindowFile(shape.window_count)};
  AddTypeFiles(std::span(&shape.dtype, 1), &spec.files);
  spec.glue = "fn load_table(window: u32, base: u32, row: u32, block: u32) -> Block {\nreturn " +
              LoadBlockCall(shape.dtype, "window") + ";\n}\n";
  spec.files.push_back("embed");
  return ComposeKernel(spec);
}

}  // namespace nonstop
