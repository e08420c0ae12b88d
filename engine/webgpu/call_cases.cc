#include "webgpu/call_cases.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/check.h"
#include "base/half.h"

namespace nonstop {
namespace {

constexpr uint32_t kLayerCount = 2;  // the second one is looked at

CaseBinding* FindOperand(std::vector<CallOperand>& operands, KernelBinding binding) {
  for (CallOperand& operand : operands) {
    if (operand.binding == binding) return &operand.bytes;
  }
  CHECK(!"a binding has no operand");
  return nullptr;
}

}  // namespace

std::vector<float> RandomFloats(Lcg& random, size_t count, float scale) {
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(2 * random.Fraction() - 1) * scale;
  return values;
}

std::vector<float> InArena(const std::vector<float>& values) {
  std::vector<float> arena(values.size() + 2 * size_t{kArenaMargin}, kSentinel);
  std::copy(values.begin(), values.end(), arena.begin() + kArenaMargin);
  return arena;
}

void AddCallCase(CaseWriter& writer, const std::string& name, const KernelCall& call,
                 uint32_t row_count, std::vector<CallOperand> operands) {
  operands.push_back(
      {KernelBinding::kParams, CaseParams({call.params.begin(), call.params.end()})});
  KernelCase kernel_case{.name = name, .kernel = call.source, .bindings = {}};
  for (KernelBinding binding : call.bindings) {
    CaseBinding bytes = std::move(*FindOperand(operands, binding));
    if (binding == KernelBinding::kVectors) {  // read in whole vec4s
      bytes.bytes.resize(RoundUp<size_t>(bytes.bytes.size(), 16));
    }
    kernel_case.bindings.push_back(std::move(bytes));
  }
  kernel_case.workgroups = call.workload.Workgroups(row_count);
  writer.AddCase(kernel_case);
}

CallOperand ExpectOut(const std::vector<float>& expected, const std::vector<float>& tolerances) {
  const std::vector<float> before = InArena(std::vector<float>(expected.size(), kSentinel));
  std::vector<float> allowed = InArena(tolerances);
  for (uint32_t i = 0; i < kArenaMargin; ++i) allowed[i] = allowed[allowed.size() - 1 - i] = 0.0f;
  return {KernelBinding::kActivationsOut, CaseOutput(before, InArena(expected), allowed)};
}

CaseBatch::CaseBatch(std::vector<BatchRow> rows, std::vector<uint32_t> output_rows)
    : rows_(std::move(rows)), output_rows_(std::move(output_rows)) {
  for (const BatchRow& row : rows_) {
    if (pages_.size() <= row.sequence) pages_.resize(row.sequence + 1);
    const size_t need = row.position / cpu::kKvPageTokenCount + 1;
    // From sequence to sequence in turns, backwards: neither is in order.
    for (size_t i = pages_[row.sequence].size(); i < need; ++i) {
      pages_[row.sequence].insert(pages_[row.sequence].begin(), page_count_++);
    }
    layout_.shape.max_pages =
        std::max<uint32_t>(layout_.shape.max_pages, static_cast<uint32_t>(need) + 1);
  }
  // More than there are, and the same for most cases: kernels are compiled for these.
  layout_.shape.max_pages = RoundUp(layout_.shape.max_pages, 11u);
  layout_.shape.max_rows = RoundUp(row_count() + 1, 75u);
  layout_.max_sequence_count = static_cast<uint32_t>(pages_.size());
}

CallOperand CaseBatch::operand() const {
  const std::vector<std::span<const uint32_t>> tables(pages_.begin(), pages_.end());
  return {KernelBinding::kState,
          CaseInput(EncodeState(
              layout_, {.rows = rows_, .output_rows = output_rows_, .page_tables = tables}))};
}

CaseCache::CaseCache(uint32_t head_dim, uint32_t kv_head_count, bool is_f32, uint32_t page_count)
    : place_{.head_dim = head_dim, .kv_head_count = kv_head_count, .is_f32 = is_f32} {
  place_.offset = place_.layer_words() * (kLayerCount - 1);
  place_.page_words = place_.layer_words() * kLayerCount;
  words_.assign(size_t{place_.page_words} * page_count, 0);
}

void CaseCache::Fill(Lcg& random) {
  const uint32_t page_count = words() / place_.page_words;
  for (uint32_t page = 0; page < page_count; ++page) {
    for (uint32_t row = 0; row < 2 * place_.kv_head_count * 256; ++row) {
      const std::vector<float> values = RandomFloats(random, place_.head_dim);
      Store(page, row / 256 % 2 == 1, row / 512, row % 256, values.data());
    }
  }
}

void CaseCache::FillWith(uint32_t word) { std::fill(words_.begin(), words_.end(), word); }

uint32_t CaseCache::WordOf(uint32_t page, bool is_value, uint32_t kv_head, uint32_t token) const {
  const uint32_t row_words = place_.is_f32 ? place_.stride() : place_.stride() / 2;
  const uint32_t row = ((is_value ? 1u : 0u) * place_.kv_head_count + kv_head) * 256 + token % 256;
  return page * place_.page_words + place_.offset + row * row_words;
}

void CaseCache::Store(uint32_t page, bool is_value, uint32_t kv_head, uint32_t token,
                      const float* values) {
  auto* row = reinterpret_cast<std::byte*>(&words_[WordOf(page, is_value, kv_head, token)]);
  for (uint32_t i = 0; i < place_.head_dim; ++i) {
    if (place_.is_f32) {
      StoreLe(row + 4 * size_t{i}, values[i]);
    } else {
      StoreLe(row + 2 * size_t{i}, FloatToHalf(values[i]));
    }
  }
}

float CaseCache::Load(uint32_t page, bool is_value, uint32_t kv_head, uint32_t token,
                      uint32_t index) const {
  const auto* row =
      reinterpret_cast<const std::byte*>(&words_[WordOf(page, is_value, kv_head, token)]);
  if (place_.is_f32) return LoadLe<float>(row + 4 * size_t{index});
  return HalfToFloat(LoadLe<uint16_t>(row + 2 * size_t{index}));
}

}  // namespace nonstop
