// Cases of embed.wgsl, matvec*.wgsl and matmul*.wgsl: products of random weights of every type with
// odd shapes, compared with f64 sums over the dequantized rows. A tolerance is the error of f32
// sums: a few roundings of the sum of magnitudes.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/bytes.h"
#include "base/check.h"
#include "base/exact_math.h"
#include "base/format.h"
#include "base/half.h"
#include "cpu/matmul_testing.h"
#include "tensor/dequantize.h"
#include "webgpu/kernel_cases.h"
#include "webgpu/product.h"
#include "webgpu/rows.h"
#include "webgpu/weight_layout.h"

namespace nonstop {
namespace {

constexpr float kSentinel = -12345.0f;
constexpr double kRoundings = 0x1p-20;  // 16 units in the last place
constexpr StateShape kState = {.max_rows = 96, .max_pages = 4};

// A number with the bound of its error.
struct Bounded {
  double value = 0;
  double error = 0;
};

// Matrices in windows as kernels see them.
struct TestMatrix {
  GpuMatrix matrix;
  std::vector<float> values;  // (row_count, column_count)
};

class TestWindows {
 public:
  explicit TestWindows(uint32_t seed) : random_(seed) {}

  TestMatrix Add(DType dtype, uint32_t row_count, uint32_t column_count, GpuBufferId window) {
    const std::vector<std::byte> raw = cpu::RandomRows(dtype, row_count, column_count, random_);
    return AddRaw(dtype, raw, row_count, column_count, window);
  }

  TestMatrix AddRaw(DType dtype, std::span<const std::byte> raw, uint32_t row_count,
                    uint32_t column_count, GpuBufferId window) {
    if (windows_.size() <= window) windows_.resize(window + 1);
    std::vector<std::byte>& bytes = windows_[window];
    bytes.resize(bytes.size() + 48, std::byte{0xee});  // matrices need not start at 0
    const size_t base = bytes.size();
    bytes.resize(base + GpuMatrixSizeBytes(dtype, row_count, column_count));
    PackGpuRows(dtype, raw.data(), row_count, column_count, bytes.data() + base);
    TestMatrix added;
    added.matrix = {dtype, row_count, column_count, {}};
    added.matrix.parts.push_back({window, static_cast<uint32_t>(base / 16), 0, row_count});
    added.values.resize(size_t{row_count} * column_count);
    const size_t row_bytes = RowSizeBytes(dtype, column_count);
    for (uint32_t row = 0; row < row_count; ++row) {
      DequantizeRow(dtype, raw.data() + row * row_bytes, column_count,
                    added.values.data() + size_t{row} * column_count);
    }
    return added;
  }

  CaseBinding Binding(GpuBufferId window) const {
    return {.access = GpuAccess::kRead, .bytes = windows_[window]};
  }
  cpu::TestRandom& random() { return random_; }

 private:
  cpu::TestRandom random_;
  std::vector<std::vector<std::byte>> windows_;
};

struct StateRows {
  uint32_t tokens = 1;
  uint32_t outputs = 0;
  std::vector<uint32_t> ids = {};        // zeros where absent
  std::vector<uint32_t> positions = {};  // likewise
};

// Sequence of row t: t % 2; page i of sequence s: 2 i + 1 - s.
uint32_t TestPage(uint32_t sequence, uint32_t page) { return 2 * page + 1 - sequence; }

CaseBinding MakeState(const StateRows& rows) {
  std::vector<uint32_t> state(16 + 5 * kState.max_rows + 2 * kState.max_pages);
  state[0] = rows.tokens;
  state[1] = rows.outputs;
  for (uint32_t t = 0; t < rows.tokens; ++t) {
    uint32_t* row = state.data() + 16 + 4 * t;
    row[0] = t < rows.ids.size() ? rows.ids[t] : 0;
    row[1] = t < rows.positions.size() ? rows.positions[t] : 0;
    row[2] = t % 2;
    row[3] = UINT32_MAX;
  }
  uint32_t* pages = state.data() + 16 + 5 * kState.max_rows;
  for (uint32_t s = 0; s < 2; ++s) {
    for (uint32_t i = 0; i < kState.max_pages; ++i)
      pages[s * kState.max_pages + i] = TestPage(s, i);
  }
  return CaseInput(state);
}

// What comes out of a buffer of floats: sentinels but for what is set.
class ExpectedFloats {
 public:
  explicit ExpectedFloats(size_t size)
      : before_(size, kSentinel), after_(size, kSentinel), tolerances_(size, 0.0f) {}

  void SetBefore(size_t at, float value) { before_[at] = after_[at] = value; }
  float before(size_t at) const { return before_[at]; }
  void Expect(size_t at, const Bounded& y) {
    after_[at] = static_cast<float>(y.value);
    tolerances_[at] = static_cast<float>(y.error + std::abs(y.value) * 0x1p-23);
  }
  CaseBinding Binding() const { return CaseOutput(before_, after_, tolerances_); }

 private:
  std::vector<float> before_;
  std::vector<float> after_;
  std::vector<float> tolerances_;
};

struct ProductCase {
  const char* name;
  ProductKind kind = ProductKind::kPlain;
  std::vector<DType> dtypes;         // of the matrices
  std::vector<uint32_t> row_counts;  // likewise
  uint32_t column_count = 32;
  uint32_t row_limit = 1;
  uint32_t tokens = 1;
  bool has_norm = false;
  bool uses_subgroups = false;
  RowSpace row_space = RowSpace::kTokens;
  bool residual_is_apart = false;
  Activation activation = Activation::kNone;
  float soft_cap = 0.0f;
  std::array<bool, 3> has_bias = {};
  bool uses_windows = false;  // one for each matrix
  uint32_t head_dim = 0;
  uint32_t rotated_dim = 0;
  bool rope_halves = false;
  bool kv_is_f32 = true;
};

constexpr float kEps = 1e-5f;
constexpr uint32_t kXOffset = 64;
constexpr uint32_t kYOffset = 192;
constexpr uint32_t kCacheOffset = 128;  // words

class ProductTest {
 public:
  explicit ProductTest(const ProductCase& test)
      : test_(test), windows_(test.column_count + test.tokens) {
    for (size_t i = 0; i < test.dtypes.size(); ++i) {
      const auto window = static_cast<GpuBufferId>(test.uses_windows ? i : 0);
      matrices_.push_back(AddMatrix(test.dtypes[i], test.row_counts[i], window));
    }
    x_ = cpu::RandomActivations(size_t{test.tokens} * test.column_count, windows_.random());
    if (!test.kv_is_f32) {
      for (float& x : x_) x = std::trunc(3 * x);
    }
    y_width_ = test.row_counts[0];
    if (test.kind == ProductKind::kQkvRows) y_width_ += 2 * test.row_counts[1];
    MakeVectors();
    for (uint32_t t = 0; t < test.tokens; ++t) positions_.push_back((t * 97 + 5) % 700);
  }

  void AddTo(CaseWriter& writer) {
    std::vector<GpuMatrix> matrices;
    for (const TestMatrix& matrix : matrices_) matrices.push_back(matrix.matrix);
    const ProductOp op = MakeOp(matrices);
    const auto dispatches = LowerProduct(op);
    CHECK(dispatches.ok() && dispatches->size() == 1);
    const ProductDispatch& dispatch = (*dispatches)[0];
    KernelCase kernel_case = {.name = Name(), .kernel = MakeProductKernel(dispatch.shape)};
    for (KernelBinding binding : ProductBindings(dispatch.shape)) {
      kernel_case.bindings.push_back(Bind(binding, dispatch));
    }
    kernel_case.workgroups = dispatch.Workgroups(test_.row_limit);
    writer.AddCase(kernel_case);
  }

 private:
  std::string Name() const {
    std::string name = std::string("product ") + test_.name;
    for (DType dtype : test_.dtypes) name += std::string(" ") + GetDType(dtype).name;
    return name + Format(" %ux%u, %u of %u rows", test_.row_counts[0], test_.column_count,
                         test_.tokens, test_.row_limit);
  }

  // An f16 cache is compared bit by bit, so what goes there must be exact: multiples of 1/16.
  TestMatrix AddMatrix(DType dtype, uint32_t row_count, GpuBufferId window) {
    if (test_.kv_is_f32) return windows_.Add(dtype, row_count, test_.column_count, window);
    CHECK(dtype == DType::kF32);
    std::vector<float> values(size_t{row_count} * test_.column_count);
    for (float& value : values) value = std::trunc(windows_.random().Uniform(-8, 8)) / 16;
    return windows_.AddRaw(dtype, std::as_bytes(std::span(values)), row_count, test_.column_count,
                           window);
  }
  float RopeMagnitude() const { return test_.kv_is_f32 ? 1.25f : 1.0f; }

  uint32_t AddVector(uint32_t length, float low, float high) {
    const auto offset = static_cast<uint32_t>(vectors_.size());
    for (uint32_t i = 0; i < length; ++i) vectors_.push_back(windows_.random().Uniform(low, high));
    vectors_.resize(RoundUp<size_t>(vectors_.size(), 4));
    return offset;
  }

  void MakeVectors() {
    vectors_.assign(8, kSentinel);
    norm_ = AddVector(test_.column_count, 0.5f, 1.5f);
    for (size_t i = 0; i < 3; ++i) {
      biases_[i] = test_.has_bias[i] ? AddVector(test_.row_counts[i], -1, 1) : kNoOffset;
    }
    // Zeros turn nothing, so that f16 pairs can be compared exactly.
    radians_.resize(test_.rotated_dim / 2);
    const size_t seen = AddVector(test_.rotated_dim / 2, 0.0f, test_.kv_is_f32 ? 1.0f : 0.0f);
    std::copy_n(vectors_.begin() + static_cast<ptrdiff_t>(seen), radians_.size(), radians_.begin());
    const std::vector<float> encoded = EncodeFrequencies(radians_);
    frequencies_ = static_cast<uint32_t>(vectors_.size());
    vectors_.insert(vectors_.end(), encoded.begin(), encoded.end());
    vectors_.resize(RoundUp<size_t>(vectors_.size(), 4));
  }

  ProductOp MakeOp(std::span<const GpuMatrix> matrices) const {
    ProductOp op;
    op.kind = test_.kind;
    op.matrices = matrices;
    op.row_limit = test_.row_limit;
    op.row_space = test_.row_space;
    op.state = kState;
    op.uses_subgroups = test_.uses_subgroups;
    op.x_offset = kXOffset;
    op.y_offset = kYOffset;
    op.y_width = y_width_;
    if (test_.residual_is_apart) op.residual_offset = 8;
    if (test_.has_norm) op.norm_offset = norm_;
    op.eps = kEps;
    op.activation = test_.activation;
    op.soft_cap = test_.soft_cap;
    op.bias_offsets = biases_;
    op.head_dim = test_.head_dim;
    op.rotated_dim = test_.rotated_dim;
    op.rope_halves = test_.rope_halves;
    op.rope_magnitude = RopeMagnitude();
    op.frequencies_offset = frequencies_;
    op.kv_is_f32 = test_.kv_is_f32;
    op.cache_offset = kCacheOffset;
    op.page_words = PageWords();
    return op;
  }

  // Two layers, of which ours is the second.
  uint32_t PageWords() const {
    return kCacheOffset + 2 * test_.row_counts[1 % test_.row_counts.size()] * 256 + 64;
  }

  CaseBinding Bind(KernelBinding binding, const ProductDispatch& dispatch) {
    switch (binding) {
      case KernelBinding::kActivationsIn:
      case KernelBinding::kActivationsIn4:
        return BindX();
      case KernelBinding::kActivationsIn2:
        return CaseInput(Residual());
      case KernelBinding::kActivationsOut:
        return BindY();
      case KernelBinding::kVectors:
        return CaseInput(vectors_);
      case KernelBinding::kCacheOut:
        return BindCache();
      case KernelBinding::kState:
        return MakeState(test_.row_space == RowSpace::kTokens
                             ? StateRows{.tokens = test_.tokens, .positions = positions_}
                             : StateRows{.tokens = 90, .outputs = test_.tokens});
      case KernelBinding::kParams:
        return CaseParams({dispatch.params.begin(), dispatch.params.end()});
      default:
        return windows_.Binding(dispatch.windows[static_cast<size_t>(binding) -
                                                 static_cast<size_t>(KernelBinding::kWeights0)]);
    }
  }

  // Rows past the run's own are there in the arena, and hold anything.
  CaseBinding BindX() const {
    std::vector<float> arena(kXOffset, kSentinel);
    arena.insert(arena.end(), x_.begin(), x_.end());
    arena.resize(RoundUp<size_t>(kXOffset + size_t{test_.row_limit} * test_.column_count, 4), NAN);
    return CaseInput(arena);
  }

  std::vector<float> Residual() const {
    std::vector<float> residual(8 + size_t{test_.tokens} * y_width_, kSentinel);
    for (size_t i = 8; i < residual.size(); ++i) residual[i] = std::sin(static_cast<float>(i));
    return residual;
  }

  Bounded Product(size_t matrix, uint32_t token, uint32_t row) const {
    const float* x = x_.data() + size_t{token} * test_.column_count;
    const float* w = matrices_[matrix].values.data() + size_t{row} * test_.column_count;
    double squares = 0, sum = 0, magnitude = 0;
    for (uint32_t i = 0; i < test_.column_count; ++i) {
      squares += double{x[i]} * x[i];
      const double product = double{x[i]} * w[i] * (test_.has_norm ? vectors_[norm_ + i] : 1.0f);
      sum += product;
      magnitude += std::abs(product);
    }
    const double factor =
        test_.has_norm ? 1 / std::sqrt(squares / test_.column_count + double{kEps}) : 1;
    Bounded y = {sum * factor, magnitude * factor * kRoundings};
    if (biases_[matrix] != kNoOffset) y.value += vectors_[biases_[matrix] + row];
    return y;
  }

  Bounded Activated(const Bounded& gate, const Bounded& up) const {
    const double g = gate.value;
    const double active =
        test_.activation == Activation::kGelu
            ? 0.5 * g * (1 + ExactTanh(0.79788456080286535588 * g * (1 + 0.044715 * g * g)))
            : g / (1 + ExactExp(-g));
    // Neither function is steeper than 1.13.
    return {active * up.value,
            1.13 * gate.error * std::abs(up.value) + std::abs(active) * up.error +
                (std::abs(active) + std::abs(g) * 0x1p-1) * std::abs(up.value) * kRoundings};
  }

  Bounded Finished(uint32_t token, uint32_t row, const ExpectedFloats& y, size_t at) const {
    Bounded a = Product(0, token, row);
    switch (test_.kind) {
      case ProductKind::kAdd:
        a.value +=
            test_.residual_is_apart ? Residual()[8 + size_t{token} * y_width_ + row] : y.before(at);
        return a;
      case ProductKind::kGateUp:
        return Activated(a, Product(1, token, row));
      default:
        if (test_.soft_cap == 0) return a;
        return {test_.soft_cap * ExactTanh(a.value / test_.soft_cap),
                a.error + test_.soft_cap * kRoundings};
    }
  }

  CaseBinding BindY() {
    ExpectedFloats y(kYOffset + size_t{test_.row_limit} * y_width_ + 16);
    for (uint32_t token = 0; token < test_.tokens; ++token) {
      const size_t begin = kYOffset + size_t{token} * y_width_;
      if (test_.kind == ProductKind::kQkv) {
        ExpectQ(token, begin, &y);
        continue;
      }
      for (uint32_t row = 0; row < test_.row_counts[0]; ++row) {
        if (test_.kind == ProductKind::kAdd) {
          y.SetBefore(begin + row, std::cos(static_cast<float>(row)));
        }
        y.Expect(begin + row, Finished(token, row, y, begin + row));
      }
      if (test_.kind != ProductKind::kQkvRows) continue;
      for (uint32_t row = 0; row < test_.row_counts[1]; ++row) {
        const size_t k = begin + test_.row_counts[0] + row;
        y.Expect(k, Product(1, token, row));
        y.Expect(k + test_.row_counts[1], Product(2, token, row));
      }
    }
    return y.Binding();
  }

  // Element `dim` of a head of Q (matrix 0) or K (1), rotated.
  Bounded Rotated(size_t matrix, uint32_t token, uint32_t head, uint32_t dim) const {
    const uint32_t first = head * test_.head_dim;
    if (dim >= test_.rotated_dim) return Product(matrix, token, first + dim);
    const uint32_t half = test_.rotated_dim / 2;
    const uint32_t pair = test_.rope_halves ? dim % half : dim / 2;
    const bool is_second = test_.rope_halves ? dim >= half : dim % 2 == 1;
    const uint32_t a_dim = test_.rope_halves ? pair : 2 * pair;
    const uint32_t b_dim = test_.rope_halves ? pair + half : 2 * pair + 1;
    const Bounded a = Product(matrix, token, first + a_dim);
    const Bounded b = Product(matrix, token, first + b_dim);
    const double angle = double{radians_[pair]} * positions_[token];
    const CosSin turn = ExactCosSin(angle);
    const double value = is_second ? a.value * turn.sine + b.value * turn.cosine
                                   : a.value * turn.cosine - b.value * turn.sine;
    // The angle is an f32.
    const double error = a.error + b.error +
                         (std::abs(a.value) + std::abs(b.value)) * (kRoundings + angle * 0x1p-23);
    return {RopeMagnitude() * value, RopeMagnitude() * error};
  }

  void ExpectQ(uint32_t token, size_t begin, ExpectedFloats* y) const {
    for (uint32_t row = 0; row < test_.row_counts[0]; ++row) {
      y->Expect(begin + row, Rotated(0, token, row / test_.head_dim, row % test_.head_dim));
    }
  }

  // Where an element of K or V of a token lies, in elements.
  size_t CacheElement(uint32_t token, bool is_value, uint32_t head, uint32_t dim) const {
    const uint32_t heads = test_.row_counts[1] / test_.head_dim;
    const uint32_t position = positions_[token];
    const size_t words_per_row = test_.kv_is_f32 ? test_.head_dim : test_.head_dim / 2;
    const size_t row = (size_t{is_value ? heads : 0} + head) * 256 + position % 256;
    const size_t word = size_t{TestPage(token % 2, position / 256)} * PageWords() + kCacheOffset +
                        row * words_per_row;
    return word * (test_.kv_is_f32 ? 1 : 2) + dim;
  }

  CaseBinding BindCache() {
    const size_t words = size_t{PageWords()} * 6 + 16;
    ExpectedFloats floats(words);
    std::vector<uint32_t> before(words, 0xdeadbeef);
    std::vector<uint32_t> after = before;
    const uint32_t heads = test_.row_counts[1] / test_.head_dim;
    for (uint32_t i = 0; i < test_.tokens * heads * test_.head_dim; ++i) {
      const uint32_t token = i / (heads * test_.head_dim);
      const uint32_t head = i / test_.head_dim % heads;
      const uint32_t dim = i % test_.head_dim;
      const Bounded k = Rotated(1, token, head, dim);
      const Bounded v = Product(2, token, head * test_.head_dim + dim);
      for (const bool is_value : {false, true}) {
        const Bounded& y = is_value ? v : k;
        const size_t at = CacheElement(token, is_value, head, dim);
        if (test_.kv_is_f32) {
          floats.Expect(at, y);
        } else {
          StoreLe(reinterpret_cast<std::byte*>(after.data()) + 2 * at,
                  FloatToHalf(static_cast<float>(y.value)));
        }
      }
    }
    return test_.kv_is_f32 ? floats.Binding() : CaseOutput(before, after);
  }

  ProductCase test_;
  TestWindows windows_;
  std::vector<TestMatrix> matrices_;
  std::vector<float> x_;
  std::vector<float> vectors_;
  uint32_t norm_ = 0;
  std::array<uint32_t, 3> biases_ = {kNoOffset, kNoOffset, kNoOffset};
  std::vector<float> radians_;
  uint32_t frequencies_ = 0;
  uint32_t y_width_ = 0;
  std::vector<uint32_t> positions_;
};

void AddProduct(CaseWriter& writer, const ProductCase& test) { ProductTest(test).AddTo(writer); }

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
  AddQkv(writer);
  AddTiles(writer);
}

}  // namespace nonstop
