// Kernels on rows against plain C++: every elementwise op, norms, RoPE, cache writes, selection;
// odd widths, in place and not, two arenas.
#include <cmath>

#include "base/exact_math.h"
#include "base/format.h"
#include "cpu/reference/ops.h"
#include "webgpu/call_cases.h"

namespace nonstop {
namespace {

const CaseBatch& Batch() {
  static const CaseBatch kBatch(
      {{0, 0, 0}, {0, 255, 1}, {0, 256, 2}, {0, 100'000 % 512, 0}, {0, 37, 3}}, {1, 4});
  return kBatch;
}
uint32_t RowCount() { return Batch().row_count(); }

float Tolerance(float value, float units) { return std::abs(value) * units * 0x1p-24f; }

struct Map {
  OpKind op;
  uint32_t group;  // 0: the whole row
  float number;
  double (*function)(double a, double b, double number);
  float (*tolerance)(float a, float y, float number);
};

float Exactly(float, float, float) { return 0.0f; }
double Gelu(double x) {
  return 0.5 * x * (1 + ExactTanh(0.79788456080286535588 * x * (1 + 0.044715 * x * x)));
}

const Map kMaps[] = {
    {OpKind::kAdd, 0, 0, [](double a, double b, double) { return a + b; }, Exactly},
    {OpKind::kAddBias, 0, 0, [](double a, double b, double) { return a + b; }, Exactly},
    {OpKind::kMul, 0, 0, [](double a, double b, double) { return a * b; }, Exactly},
    {OpKind::kMulWeight, 0, 0, [](double a, double b, double) { return a * b; }, Exactly},
    {OpKind::kMulWeight, 11, 0, [](double a, double b, double) { return a * b; }, Exactly},
    {OpKind::kMulGroup, 11, 0, [](double a, double b, double) { return a * b; }, Exactly},
    {OpKind::kScale, 0, 3.7f, [](double a, double, double s) { return a * s; }, Exactly},
    {OpKind::kSquare, 0, 0, [](double a, double, double) { return a * a; }, Exactly},
    {OpKind::kAddScalar, 0, 1e-3f, [](double a, double, double s) { return a + s; }, Exactly},
    // exp is off by 3 + 2 |x| units, a division by 2.5.
    {OpKind::kSilu, 0, 0, [](double a, double, double) { return a / (1 + ExactExp(-a)); },
     [](float a, float y, float) { return Tolerance(y, 8 + 2 * std::abs(a)); }},
    {OpKind::kGelu, 0, 0, [](double a, double, double) { return Gelu(a); },
     [](float a, float y, float) {
       const float exponent = std::abs(1.6f * a * (1 + 0.045f * a * a));
       return Tolerance(y, 12 + 8 * exponent) + 1e-30f;
     }},
    {OpKind::kSoftCap, 0, 2.5f, [](double a, double, double s) { return s * ExactTanh(a / s); },
     [](float, float, float cap) { return Tolerance(cap, 16); }},
    // Of the magnitude, so that there is a root.
    {OpKind::kRsqrt, 0, 0, [](double a, double, double) { return 1 / std::sqrt(a); },
     [](float, float y, float) { return Tolerance(y, 8); }},
};

void AddMap(CaseWriter& writer, const Map& map, uint32_t width, bool in_place) {
  Lcg random{static_cast<uint64_t>(map.op) + width};
  const size_t count = size_t{RowCount()} * width;
  const uint32_t group = map.group == 0 ? width : map.group;
  std::vector<float> a = RandomFloats(random, count, 6.0f);
  if (map.op == OpKind::kRsqrt) {
    for (float& value : a) value = std::abs(value) + 1e-3f;
  }
  const std::vector<float> b = RandomFloats(random, count, 2.0f);
  std::vector<float> expected, tolerances;
  for (size_t i = 0; i < count; ++i) {
    const bool is_vector = map.op == OpKind::kAddBias || map.op == OpKind::kMulWeight;
    const size_t at = is_vector ? i % width % group : map.op == OpKind::kMulGroup ? i / group : i;
    expected.push_back(static_cast<float>(map.function(
        static_cast<double>(a[i]), static_cast<double>(b[at]), static_cast<double>(map.number))));
    tolerances.push_back(map.tolerance(a[i], expected[i], map.number));
  }
  const MapOp op = {.op = map.op,
                    .a = {in_place ? 2u : 0u, kArenaMargin},
                    .b = {1, kArenaMargin},
                    .y = {2, kArenaMargin},
                    .vector = kArenaMargin,
                    .width = width,
                    .group = map.group,
                    .number = map.number,
                    .state = Batch().state()};
  const KernelCall call = MakeMapCall(op);
  CallOperand out = ExpectOut(expected, tolerances);
  if (in_place) out.bytes.bytes = BytesOf(InArena(a));
  const std::vector<float>& first = in_place ? b : a;
  AddCallCase(writer,
              Format("%s width %u%s%s", GetOpInfo(map.op).name, width,
                     map.group != 0 ? " in groups" : "", in_place ? " in place" : ""),
              call, RowCount(),
              {{KernelBinding::kActivationsIn, CaseInput(InArena(first))},
               {KernelBinding::kActivationsIn2, CaseInput(InArena(b))},
               {KernelBinding::kVectors, CaseInput(InArena(b))},
               out,
               Batch().operand()});
}

void AddNorm(CaseWriter& writer, uint32_t group_count, uint32_t group, bool has_residual,
             bool in_place) {
  Lcg random{group};
  const size_t count = size_t{RowCount()} * group_count * group;
  const std::vector<float> x = RandomFloats(random, count, 3.0f);
  const std::vector<float> residual = RandomFloats(random, count, 3.0f);
  const std::vector<float> w = RandomFloats(random, group);
  std::vector<float> expected(count), tolerances;
  for (size_t i = 0; i < count; i += group) {
    cpu::reference::RmsNorm(&x[i], w.data(), group, 1e-5f, &expected[i]);
  }
  for (size_t i = 0; i < count; ++i) {
    const float size = std::abs(expected[i]) + (has_residual ? std::abs(residual[i]) : 0.0f);
    if (has_residual) expected[i] += residual[i];
    // A sum of squares in 256 parts, then 40 steps; root, division and two products.
    tolerances.push_back(Tolerance(size, 40 + static_cast<float>(group) / 256));
  }
  NormOp op = {.x = {in_place && !has_residual ? 2u : 0u, kArenaMargin},
               .y = {2, kArenaMargin},
               .residual = {},
               .group_count = group_count,
               .group = group,
               .weight = kArenaMargin,
               .eps = 1e-5f,
               .state = Batch().state()};
  if (has_residual) op.residual = {in_place ? 2u : 1u, kArenaMargin};
  CallOperand out = ExpectOut(expected, tolerances);
  if (in_place) out.bytes.bytes = BytesOf(InArena(has_residual ? residual : x));
  AddCallCase(writer,
              Format("rms_norm %u x %u%s%s", group_count, group, has_residual ? " residual" : "",
                     in_place ? " in place" : ""),
              MakeNormCall(op), RowCount(),
              {{KernelBinding::kActivationsIn, CaseInput(InArena(x))},
               {KernelBinding::kActivationsIn2, CaseInput(InArena(residual))},
               {KernelBinding::kVectors, CaseInput(InArena(w))},
               out,
               Batch().operand()});
}

void AddMean(CaseWriter& writer, uint32_t group_count, uint32_t group) {
  Lcg random{group};
  const std::vector<float> x = RandomFloats(random, size_t{RowCount()} * group_count * group);
  std::vector<float> expected, tolerances;
  for (size_t i = 0; i < x.size(); i += group) {
    double sum = 0, size = 0;
    for (uint32_t j = 0; j < group; ++j) {
      sum += static_cast<double>(x[i + j]);
      size += std::abs(static_cast<double>(x[i + j]));
    }
    expected.push_back(static_cast<float>(sum / group));
    tolerances.push_back(static_cast<float>(size / group * 0x1p-20));
  }
  AddCallCase(writer, Format("group_mean %u x %u", group_count, group),
              MakeMeanCall({.x = {0, kArenaMargin},
                            .y = {1, kArenaMargin},
                            .group_count = group_count,
                            .group = group,
                            .state = Batch().state()}),
              RowCount(),
              {{KernelBinding::kActivationsIn, CaseInput(InArena(x))},
               ExpectOut(expected, tolerances),
               Batch().operand()});
}

void AddSelect(CaseWriter& writer, uint32_t width) {
  Lcg random{width};
  const std::vector<float> x = RandomFloats(random, size_t{RowCount()} * width);
  std::vector<float> expected;
  for (uint32_t row : {1u, 4u}) {
    expected.insert(expected.end(), x.begin() + row * width, x.begin() + (row + 1) * width);
  }
  AddCallCase(writer, Format("select_rows width %u", width),
              MakeSelectCall({.x = {0, kArenaMargin},
                              .y = {1, kArenaMargin},
                              .width = width,
                              .state = Batch().state()}),
              2,
              {{KernelBinding::kActivationsIn, CaseInput(InArena(x))},
               ExpectOut(expected, std::vector<float>(expected.size(), 0.0f)),
               Batch().operand()});
}

struct Rotation {
  uint32_t head_dim;
  uint32_t rotated_dim;
  bool halves;
};

constexpr Rotation kRotations[] = {{64, 64, false}, {64, 64, true}, {20, 12, true}, {6, 4, false}};
constexpr float kMagnitude = 1.25f;

// As trained models have them: from a whole radian down.
std::vector<float> Frequencies(uint32_t pair_count) {
  std::vector<float> frequencies;
  for (uint32_t i = 0; i < pair_count; ++i) {
    frequencies.push_back(static_cast<float>(
        ExactExp(-9.21 * static_cast<double>(i) / static_cast<double>(pair_count))));
  }
  return frequencies;
}

void Rotate(const Rotation& rotation, uint32_t position, float* head) {
  const uint32_t pair_count = rotation.rotated_dim / 2;
  std::vector<float> cos_sin(rotation.rotated_dim);
  cpu::reference::RopeTable(position, Frequencies(pair_count).data(), pair_count, kMagnitude,
                            cos_sin.data());
  cpu::reference::Rope(head, 1, rotation.head_dim, cos_sin.data(), pair_count,
                       rotation.halves ? cpu::RopeStyle::kHalves : cpu::RopeStyle::kAdjacent);
}

RotationOp MakeRotation(const Rotation& rotation) {
  return {.rotated_dim = rotation.rotated_dim,
          .halves = rotation.halves,
          .frequencies = 0,
          .magnitude = kMagnitude};
}

// Positions far into a long context, where f32 angles would be off.
CaseBatch FarBatch() {
  return CaseBatch({{0, 0, 0}, {0, 1, 1}, {0, 131'071, 2}, {0, 100'003, 3}, {0, 4097, 4}}, {});
}

void AddRope(CaseWriter& writer, const Rotation& rotation, bool in_place) {
  constexpr uint32_t kHeads = 3;
  const CaseBatch batch = FarBatch();
  Lcg random{rotation.head_dim};
  const std::vector<float> x =
      RandomFloats(random, size_t{batch.row_count()} * kHeads * rotation.head_dim, 2.0f);
  std::vector<float> expected = x;
  for (uint32_t i = 0; i < batch.row_count() * kHeads; ++i) {
    Rotate(rotation, batch.rows()[i / kHeads].position, &expected[size_t{i} * rotation.head_dim]);
  }
  CallOperand out = ExpectOut(expected, std::vector<float>(x.size(), 0x1p-19f));
  if (in_place) out.bytes.bytes = BytesOf(InArena(x));
  AddCallCase(writer,
              Format("rope %u of %u%s%s", rotation.rotated_dim, rotation.head_dim,
                     rotation.halves ? " halves" : "", in_place ? " in place" : ""),
              MakeRopeCall({.x = {in_place ? 1u : 0u, kArenaMargin},
                            .y = {1, kArenaMargin},
                            .head_count = kHeads,
                            .head_dim = rotation.head_dim,
                            .rotation = MakeRotation(rotation),
                            .state = batch.state()}),
              batch.row_count(),
              {{KernelBinding::kActivationsIn, CaseInput(InArena(x))},
               out,
               {KernelBinding::kVectors,
                CaseInput(EncodeFrequencies(Frequencies(rotation.rotated_dim / 2)))},
               batch.operand()});
}

// Values that f16 rounds in every way: ties, the least and the largest numbers, infinity.
void PutHardHalves(std::vector<float>& values) {
  const float hard[] = {0.0f,         -0.0f,          65504.0f,       65519.9f,   65520.0f,
                        -1e9f,        0x1p-24f,       0x1p-25f,       0x1.8p-25f, 0x1p-14f,
                        0x1.ffcp-15f, 1.00048828125f, 1.00146484375f, 2049.0f,    2051.0f,
                        6.1e-5f,      -3.3e-6f,       0x1.002p0f};
  std::copy(std::begin(hard), std::end(hard), values.begin());
}

void AddKvWrite(CaseWriter& writer, uint32_t head_dim, bool is_f32, bool two_arenas) {
  constexpr uint32_t kKvHeads = 2;
  CaseCache before(head_dim, kKvHeads, is_f32, Batch().page_count());
  before.FillWith(0x12345678);
  CaseCache after = before;
  Lcg random{head_dim};
  const size_t row_width = size_t{kKvHeads} * head_dim;
  std::vector<float> k = RandomFloats(random, RowCount() * row_width, 3.0f);
  const std::vector<float> v = RandomFloats(random, RowCount() * row_width, 3.0f);
  PutHardHalves(k);
  for (uint32_t i = 0; i < RowCount() * kKvHeads; ++i) {
    const BatchRow& row = Batch().rows()[i / kKvHeads];
    const uint32_t page = Batch().pages(row.sequence)[row.position / 256];
    after.Store(page, false, i % kKvHeads, row.position, &k[size_t{i} * head_dim]);
    after.Store(page, true, i % kKvHeads, row.position, &v[size_t{i} * head_dim]);
  }
  std::vector<float> both = k;
  both.insert(both.end(), v.begin(), v.end());
  const auto v_offset = static_cast<uint32_t>(kArenaMargin + k.size());
  AddCallCase(writer,
              Format("kv_write %u%s%s", head_dim, is_f32 ? " f32" : "",
                     two_arenas ? " from two arenas" : ""),
              MakeKvWriteCall({.k = {0, kArenaMargin},
                               .v = two_arenas ? ActivationPlace{1, kArenaMargin}
                                               : ActivationPlace{0, v_offset},
                               .cache = before.place(),
                               .state = Batch().state()}),
              RowCount(),
              {{KernelBinding::kActivationsIn, CaseInput(InArena(both))},
               {KernelBinding::kActivationsIn2, CaseInput(InArena(v))},
               {KernelBinding::kCacheOut, CaseOutput(before.bytes(), after.bytes())},
               Batch().operand()});
}

void AddRopeKv(CaseWriter& writer, const Rotation& rotation, bool has_norms) {
  constexpr uint32_t kHeads = 3, kKvHeads = 2, kUnits = kHeads + 2 * kKvHeads;
  const uint32_t dim = rotation.head_dim;
  Lcg random{dim};
  CaseCache before(dim, kKvHeads, true, Batch().page_count());
  before.Fill(random);
  CaseCache after = before;
  const std::vector<float> x = RandomFloats(random, size_t{RowCount()} * kUnits * dim, 2.0f);
  const std::vector<float> norms = RandomFloats(random, 2 * size_t{dim});
  std::vector<float> vectors = EncodeFrequencies(Frequencies(rotation.rotated_dim / 2));
  const auto norm_at = static_cast<uint32_t>(vectors.size());
  vectors.insert(vectors.end(), norms.begin(), norms.end());
  std::vector<float> q;
  for (uint32_t i = 0; i < RowCount() * kUnits; ++i) {
    const BatchRow& row = Batch().rows()[i / kUnits];
    const uint32_t unit = i % kUnits;
    const float* first = &x[size_t{i} * dim];
    std::vector<float> head(first, first + dim);
    if (unit < kHeads + kKvHeads) {
      const float* norm = &norms[unit < kHeads ? 0 : dim];
      if (has_norms) cpu::reference::RmsNorm(first, norm, dim, 1e-6f, head.data());
      Rotate(rotation, row.position, head.data());
    }
    if (unit < kHeads) {
      q.insert(q.end(), head.begin(), head.end());
    } else {
      after.Store(Batch().pages(row.sequence)[row.position / 256], unit >= kHeads + kKvHeads,
                  (unit - kHeads) % kKvHeads, row.position, head.data());
    }
  }
  const auto floats = [](const CaseCache& from) {
    std::vector<float> values(from.words());
    std::memcpy(values.data(), from.bytes().data(), 4 * values.size());
    return values;
  };
  std::vector<float> tolerances;
  for (size_t i = 0; i < after.bytes().size(); ++i) {
    tolerances.push_back(after.bytes()[i] == before.bytes()[i] ? 0.0f : 0x1p-18f);
  }
  AddCallCase(writer,
              Format("rope_kv %u of %u%s%s", rotation.rotated_dim, dim,
                     rotation.halves ? " halves" : "", has_norms ? " normed" : ""),
              MakeRopeKvCall({.rows = {.x = {0, kArenaMargin},
                                       .head_count = kHeads,
                                       .rotation = MakeRotation(rotation),
                                       .has_norms = has_norms,
                                       .q_norm = norm_at,
                                       .k_norm = norm_at + dim,
                                       .eps = 1e-6f},
                              .q = {1, kArenaMargin},
                              .cache = before.place(),
                              .state = Batch().state()}),
              RowCount(),
              {{KernelBinding::kActivationsIn, CaseInput(InArena(x))},
               ExpectOut(q, std::vector<float>(q.size(), 0x1p-18f)),
               {KernelBinding::kVectors, CaseInput(vectors)},
               {KernelBinding::kCacheOut, CaseOutput(floats(before), floats(after), tolerances)},
               Batch().operand()});
}

}  // namespace

void AddRowsCases(CaseWriter& writer) {
  for (const Map& map : kMaps) {
    AddMap(writer, map, 77, false);
    AddMap(writer, map, 77, true);
  }
  for (uint32_t group : {1u, 5u, 64u, 577u}) {
    AddNorm(writer, 1, group, false, false);
    AddNorm(writer, 1, group, true, group == 577);
  }
  AddNorm(writer, 3, 20, false, true);
  AddMean(writer, 1, 577);
  AddMean(writer, 7, 11);
  AddSelect(writer, 7);
  AddSelect(writer, 577);
  for (const Rotation& rotation : kRotations) {
    AddRope(writer, rotation, false);
    AddRopeKv(writer, rotation, false);
  }
  AddRope(writer, kRotations[1], true);
  AddRopeKv(writer, kRotations[1], true);
  AddRopeKv(writer, kRotations[2], true);
  AddKvWrite(writer, 64, false, false);
  AddKvWrite(writer, 20, false, true);
  AddKvWrite(writer, 20, true, true);
}

}  // namespace nonstop
