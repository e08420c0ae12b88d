#include "webgpu/product_oracle.h"

#include <algorithm>

#include "base/check.h"
#include "base/exact_math.h"
#include "base/format.h"
#include "base/half.h"
#include "webgpu/rows.h"

namespace nonstop {
namespace {

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
    if (test.parts_head_dim != 0) MakeParts();
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
    const uint32_t begin = AddVector(test_.rotated_dim / 2, 0.0f, test_.kv_is_f32 ? 1.0f : 0.0f);
    radians_.assign(vectors_.begin() + begin, vectors_.begin() + begin + test_.rotated_dim / 2);
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
    if (test_.parts_head_dim != 0) {
      op.x_parts = parts_;
      op.x_offset = 0;
    }
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

  // Random parts, and x as what they make together.
  void MakeParts() {
    const uint32_t dim = test_.parts_head_dim;
    parts_ = {.head_count = test_.column_count / dim,
              .head_dim = dim,
              .window = test_.parts_window,
              .range_count = 4,
              .row_limit = test_.row_limit};
    parts_arena_.assign(RoundUp<size_t>(parts_.element_count(), 4), NAN);
    for (uint32_t token = 0; token < test_.tokens; ++token) {
      for (uint32_t head = 0; head < parts_.head_count; ++head) MakeParts(token, head);
    }
  }
  void MakeParts(uint32_t token, uint32_t head) {
    const uint32_t seen =
        parts_.window == 0 ? positions_[token] + 1 : std::min(positions_[token] + 1, parts_.window);
    const uint32_t step = AttentionParts::kRangeStep;
    const uint32_t range_tokens = DivideRoundUp(seen, parts_.range_count * step) * step;
    std::vector<double> sums(parts_.head_dim, 0.0);
    double total = 0;
    for (uint32_t range = 0; range < DivideRoundUp(seen, range_tokens); ++range) {
      const uint32_t part = (token * parts_.range_count + range) * parts_.head_count + head;
      const float largest = 3 * std::sin(static_cast<float>(part));
      const float weight = 1.5f + 0.5f * std::cos(static_cast<float>(part));
      float* stat = &parts_arena_[parts_.stats_offset() + 2 * size_t{part}];
      stat[0] = largest;
      stat[1] = weight;
      const double factor = ExactExp(static_cast<double>(largest));
      total += factor * static_cast<double>(weight);
      const std::vector<float> values = cpu::RandomActivations(sums.size(), windows_.random());
      for (uint32_t i = 0; i < sums.size(); ++i) {
        parts_arena_[size_t{part} * parts_.head_dim + i] = values[i];
        sums[i] += factor * static_cast<double>(values[i]);
      }
    }
    for (uint32_t i = 0; i < sums.size(); ++i) {
      x_[size_t{token} * test_.column_count + head * parts_.head_dim + i] =
          static_cast<float>(sums[i] / total);
    }
  }

  // Rows past the run's own are there in the arena, and hold anything.
  CaseBinding BindX() const {
    if (test_.parts_head_dim != 0) return CaseInput(parts_arena_);
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
    // exp and the divisions of parts are off by some units.
    const double roundings = kRoundings * (test_.parts_head_dim == 0 ? 1 : 4);
    Bounded y = {sum * factor, magnitude * factor * roundings};
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
  AttentionParts parts_;
  std::vector<float> parts_arena_;
  std::vector<float> vectors_;
  uint32_t norm_ = 0;
  std::array<uint32_t, 3> biases_ = {kNoOffset, kNoOffset, kNoOffset};
  std::vector<float> radians_;  // per position, of each pair
  uint32_t frequencies_ = 0;
  uint32_t y_width_ = 0;
  std::vector<uint32_t> positions_;
};

}  // namespace

void AddProduct(CaseWriter& writer, const ProductCase& test) { ProductTest(test).AddTo(writer); }

}  // namespace nonstop
