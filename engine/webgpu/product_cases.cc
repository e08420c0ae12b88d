// Cases of embed.wgsl, matvec*.wgsl and matmul*.wgsl: every type and kind, odd shapes.
#include <algorithm>

#include "base/check.h"
#include "base/format.h"
#include "webgpu/product_oracle.h"

namespace nonstop {
namespace {

// Every type; every number of tokens that has a kernel of its own; odd widths.
void AddTypes(CaseWriter& writer) {
  for (DType dtype : cpu::kComputedTypes) {
    const uint32_t block = std::max(GetDType(dtype).block_length, 32u);
    AddProduct(writer,
               {.name = "type", .dtypes = {dtype}, .row_counts = {37}, .column_count = 3 * block});
  }
  for (const uint32_t tokens : {2u, 4u, 8u}) {
    AddProduct(writer, {.name = "tokens",
                        .dtypes = {DType::kQ4_1},
                        .row_counts = {13},
                        .column_count = 32,
                        .row_limit = tokens,
                        .tokens = tokens - tokens / 4});
  }
  AddProduct(writer, {.name = "odd",
                      .dtypes = {DType::kF32},
                      .row_counts = {5},
                      .column_count = 35,
                      .row_limit = 2,
                      .tokens = 2});
  AddProduct(writer,
             {.name = "odd", .dtypes = {DType::kF16}, .row_counts = {9}, .column_count = 50});
}

// More rows than matvec.wgsl takes: 1 to 70 of 70, in every kind.
void AddTiles(CaseWriter& writer) {
  ProductCase base = {.name = "tiles",
                      .dtypes = {DType::kQ4_1},
                      .row_counts = {77},
                      .column_count = 96,
                      .row_limit = 70};
  for (const uint32_t tokens : {1u, 32u, 33u, 70u}) {
    base.tokens = tokens;
    AddProduct(writer, base);
  }
  for (DType dtype : {DType::kF32, DType::kQ8_0, DType::kQ6_K}) {
    ProductCase test = base;
    test.dtypes = {dtype};
    test.column_count = 256;
    AddProduct(writer, test);
  }
  ProductCase test = base;
  test.name = "tiles, odd";
  test.dtypes = {DType::kF32};
  test.column_count = 35;
  AddProduct(writer, test);
  test = base;
  test.name = "tiles, add";
  test.kind = ProductKind::kAdd;
  AddProduct(writer, test);
  test.name = "tiles, gate up";
  test.kind = ProductKind::kGateUp;
  test.dtypes = {DType::kQ4_1, DType::kQ5_0};
  test.row_counts = {45, 45};
  test.uses_windows = true;
  test.activation = Activation::kSilu;
  AddProduct(writer, test);
  test.name = "tiles, qkv";
  test.kind = ProductKind::kQkvRows;
  test.dtypes = {DType::kQ4_0, DType::kQ4_0, DType::kQ8_0};
  test.row_counts = {96, 32, 32};
  test.has_bias = {true, true, true};
  AddProduct(writer, test);
}

// Everything around the product.
void AddEpilogues(CaseWriter& writer) {
  const DType q4 = DType::kQ4_1, q8 = DType::kQ8_0;
  AddProduct(
      writer,
      {.name = "norm", .dtypes = {q8}, .row_counts = {100}, .column_count = 576, .has_norm = true});
  AddProduct(writer, {.name = "norm of outputs",
                      .dtypes = {q8},
                      .row_counts = {70},
                      .column_count = 192,
                      .row_limit = 8,
                      .tokens = 5,
                      .has_norm = true,
                      .row_space = RowSpace::kOutputs});
  AddProduct(writer, {.name = "cap",
                      .dtypes = {q8},
                      .row_counts = {20},
                      .column_count = 96,
                      .has_norm = true,
                      .soft_cap = 2.0f});
  AddProduct(writer, {.name = "add",
                      .kind = ProductKind::kAdd,
                      .dtypes = {q4},
                      .row_counts = {77},
                      .column_count = 1536});
  AddProduct(writer, {.name = "add",
                      .kind = ProductKind::kAdd,
                      .dtypes = {q4},
                      .row_counts = {33},
                      .column_count = 96,
                      .row_limit = 8,
                      .tokens = 8});
  AddProduct(writer, {.name = "add apart",
                      .kind = ProductKind::kAdd,
                      .dtypes = {q4},
                      .row_counts = {21},
                      .column_count = 64,
                      .row_limit = 2,
                      .tokens = 2,
                      .residual_is_apart = true});
  for (const Activation activation : {Activation::kSilu, Activation::kGelu}) {
    AddProduct(writer, {.name = "gate up",
                        .kind = ProductKind::kGateUp,
                        .dtypes = {q4, q4},
                        .row_counts = {45, 45},
                        .column_count = 576,
                        .has_norm = true,
                        .activation = activation});
    AddProduct(writer, {.name = "gate up",
                        .kind = ProductKind::kGateUp,
                        .dtypes = {DType::kQ4_K, DType::kQ6_K},
                        .row_counts = {19, 19},
                        .column_count = 512,
                        .row_limit = 8,
                        .tokens = 7,
                        .has_norm = true,
                        .activation = activation,
                        .uses_windows = true});
  }
}

// Rows of x that do not fit in workgroup memory.
void AddLong(CaseWriter& writer) {
  for (const uint32_t tokens : {1u, 2u, 4u, 8u}) {
    AddProduct(writer, {.name = "long",
                        .dtypes = {DType::kQ4_1},
                        .row_counts = {18},
                        .column_count = 4864,
                        .row_limit = tokens,
                        .tokens = tokens,
                        .has_norm = true});
  }
}

// The same sums by shuffles, whatever the size of a subgroup.
void AddSubgroups(CaseWriter& writer) {
  ProductCase test = {.name = "subgroups",
                      .dtypes = {DType::kQ4_1},
                      .row_counts = {37},
                      .column_count = 1536,
                      .has_norm = true,
                      .uses_subgroups = true};
  AddProduct(writer, test);
  test.column_count = 96;
  AddProduct(writer, test);
  test.name = "subgroups, gate and up";
  test.kind = ProductKind::kGateUp;
  test.dtypes = {DType::kQ4_1, DType::kQ4_1};
  test.row_counts = {37, 37};
  test.column_count = 576;
  AddProduct(writer, test);
  // Of several tokens: rows of x in one chunk and in several.
  test.row_limit = 8;
  test.tokens = 7;
  AddProduct(writer, test);
  test.row_limit = test.tokens = 1;
  test.name = "subgroups, qkv";
  test.kind = ProductKind::kQkv;
  test.dtypes = {DType::kQ4_K, DType::kQ4_K, DType::kQ6_K};
  test.row_counts = {96, 32, 32};
  test.column_count = 1280;
  test.head_dim = 32;
  test.rotated_dim = 32;
  AddProduct(writer, test);
  test.row_limit = 4;
  test.tokens = 3;
  AddProduct(writer, test);
  test.name = "subgroups, add";
  test.kind = ProductKind::kAdd;
  test.dtypes = {DType::kQ4_1};
  test.row_counts = {37};
  test.column_count = 1536;
  test.has_norm = false;
  test.row_limit = 8;
  test.tokens = 6;
  AddProduct(writer, test);
  test.row_limit = test.tokens = 2;
  AddProduct(writer, test);
}

// x as attention leaves it.
void AddParts(CaseWriter& writer) {
  ProductCase test = {.name = "parts, add",
                      .kind = ProductKind::kAdd,
                      .dtypes = {DType::kQ4_1},
                      .row_counts = {37},
                      .column_count = 576,
                      .parts_head_dim = 64};
  AddProduct(writer, test);
  test.uses_subgroups = true;
  AddProduct(writer, test);
  test.uses_subgroups = false;
  test.row_limit = 8;
  test.tokens = 7;
  AddProduct(writer, test);
  test.parts_window = 100;
  AddProduct(writer, test);
  test.uses_subgroups = true;
  AddProduct(writer, test);
  test.uses_subgroups = false;
  test.name = "parts";
  test.kind = ProductKind::kPlain;
  test.dtypes = {DType::kF32};
  test.column_count = 60;
  test.parts_head_dim = 20;
  AddProduct(writer, test);
}

// Heads, which have very many rows, and prompts' tiles of very many.
void AddManyRows(CaseWriter& writer) {
  ProductCase test = {.name = "many rows",
                      .dtypes = {DType::kQ8_0},
                      .row_counts = {16'390},
                      .column_count = 96,
                      .has_norm = true};
  AddProduct(writer, test);
  test.uses_subgroups = true;
  test.column_count = 64;
  AddProduct(writer, test);
  test.row_limit = 8;
  test.tokens = 5;
  AddProduct(writer, test);
  AddProduct(writer, {.name = "many tiles",
                      .dtypes = {DType::kQ4_1},
                      .row_counts = {5465},
                      .column_count = 96,
                      .row_limit = 70,
                      .tokens = 70});
  AddProduct(writer, {.name = "many tiles, gate up",
                      .kind = ProductKind::kGateUp,
                      .dtypes = {DType::kQ4_1, DType::kQ4_1},
                      .row_counts = {2741, 2741},
                      .column_count = 64,
                      .row_limit = 70,
                      .tokens = 66,
                      .activation = Activation::kSilu});
}

void AddQkv(CaseWriter& writer) {
  const DType q4 = DType::kQ4_K, q6 = DType::kQ6_K;
  const ProductCase base = {.name = "qkv",
                            .kind = ProductKind::kQkv,
                            .dtypes = {q4, q4, q6},
                            .row_counts = {96, 32, 32},
                            .column_count = 256,
                            .has_norm = true,
                            .head_dim = 32,
                            .rotated_dim = 32};
  ProductCase test = base;
  AddProduct(writer, test);
  test.rope_halves = true;
  AddProduct(writer, test);
  test = base;
  test.name = "qkv, partial, biases";
  test.rotated_dim = 20;
  test.rope_halves = true;
  test.has_bias = {true, true, true};
  test.row_limit = test.tokens = 8;
  test.uses_windows = true;
  AddProduct(writer, test);
  test.name = "qkv, partial, adjacent, one bias";
  test.rope_halves = false;
  test.has_bias = {false, false, true};
  test.dtypes = {DType::kQ8_0, DType::kQ8_0, DType::kQ8_0};
  test.column_count = 96;
  test.row_limit = 4;
  test.tokens = 3;
  AddProduct(writer, test);
  test = base;
  test.name = "qkv, f16 cache";
  test.dtypes = {DType::kF32, DType::kF32, DType::kF32};
  test.column_count = 64;
  test.has_norm = false;
  test.row_limit = test.tokens = 4;
  test.kv_is_f32 = false;
  AddProduct(writer, test);
  test.rope_halves = true;
  AddProduct(writer, test);
  test = base;
  test.name = "qkv rows";
  test.kind = ProductKind::kQkvRows;
  test.has_bias = {true, false, true};
  test.row_limit = 2;
  test.tokens = 2;
  AddProduct(writer, test);
  test.name = "qkv rows without biases";
  test.has_bias = {};
  AddProduct(writer, test);
}

// The table in three windows of 16, 8 and 9 rows. `has_tiny_scales`: f16 scales are subnormal.
void AddEmbed(CaseWriter& writer, DType dtype, bool has_tiny_scales) {
  const uint32_t block = std::max(GetDType(dtype).block_length, 32u);
  const bool is_float = GetDType(dtype).block_length == 1;
  const uint32_t columns = is_float ? 50 : 3 * block;
  TestWindows windows(columns);
  GpuMatrix table = {dtype, 33, columns, {}};
  std::vector<float> values;
  uint32_t row_begin = 0;
  for (const uint32_t rows : {16u, 8u, 9u}) {
    const auto window = static_cast<GpuBufferId>(table.parts.size());
    std::vector<std::byte> raw = cpu::RandomRows(dtype, rows, columns, windows.random());
    const size_t block_bytes = GetDType(dtype).block_size_bytes;
    for (size_t at = 0; has_tiny_scales && at < raw.size(); at += block_bytes) {
      cpu::SetScales(dtype, reinterpret_cast<uint8_t*>(raw.data()) + at, 1e-6f, 0);
    }
    const TestMatrix part = windows.AddRaw(dtype, raw, rows, columns, window);
    table.parts.push_back({window, part.matrix.parts[0].base, row_begin, rows});
    row_begin += rows;
    values.insert(values.end(), part.values.begin(), part.values.end());
  }
  const std::vector<uint32_t> ids = {0, 32, 17, 24, 15, 16};
  const EmbedOp op = {.table = &table, .scale = 1.5f, .state = kState, .y_offset = 8};
  const auto dispatches = LowerEmbed(op);
  CHECK(dispatches.ok() && dispatches->size() == 1);
  const EmbedDispatch& dispatch = (*dispatches)[0];
  ExpectedFloats y(8 + (ids.size() + 1) * columns);
  for (size_t i = 0; i < ids.size() * columns; ++i) {
    const double value = double{values[ids[i / columns] * columns + i % columns]} * 1.5;
    // The minimum that a type adds may cancel what it is added to.
    y.Expect(8 + i, {value, is_float || has_tiny_scales ? 0 : 0x1p-22});
  }
  writer.AddCase(
      {.name = Format("embed %s%s", GetDType(dtype).name, has_tiny_scales ? ", tiny scales" : ""),
       .kernel = MakeEmbedKernel(dispatch.shape),
       .bindings = {y.Binding(), windows.Binding(0), windows.Binding(1), windows.Binding(2),
                    MakeState({.tokens = static_cast<uint32_t>(ids.size()), .ids = ids}),
                    CaseParams({dispatch.params.begin(), dispatch.params.end()})},
       .workgroups = dispatch.Workgroups(static_cast<uint32_t>(ids.size()))});
}

void AddEmbeds(CaseWriter& writer) {
  for (DType dtype : cpu::kComputedTypes) AddEmbed(writer, dtype, false);
  AddEmbed(writer, DType::kQ8_0, true);
  AddEmbed(writer, DType::kQ6_K, true);
}

}  // namespace

void AddProductCases(CaseWriter& writer) {
  AddEmbeds(writer);
  AddTypes(writer);
  AddEpilogues(writer);
  AddLong(writer);
  AddSubgroups(writer);
  AddParts(writer);
  AddManyRows(writer);
  AddQkv(writer);
  AddTiles(writer);
}

}  // namespace nonstop
