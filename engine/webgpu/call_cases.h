// Kernel cases of KernelCalls: the parts that all of them have.
#pragma once

#include <string>
#include <vector>

#include "base/test_random.h"
#include "cpu/ops.h"
#include "plan/batch.h"
#include "webgpu/kernel_call.h"
#include "webgpu/kernel_cases.h"
#include "webgpu/rows.h"
#include "webgpu/state.h"

namespace nonstop {

inline constexpr float kSentinel = 1234.5f;

// What lies in an arena around an operand, and where the operand begins.
inline constexpr uint32_t kArenaMargin = 8;

std::vector<float> RandomFloats(Lcg& random, size_t count, float scale = 1.0f);
// The operand, with sentinels before and behind it.
std::vector<float> InArena(const std::vector<float>& values);

// Operands by binding; params come from the call.
struct CallOperand {
  KernelBinding binding;
  CaseBinding bytes;
};
void AddCallCase(CaseWriter& writer, const std::string& name, const KernelCall& call,
                 uint32_t row_count, std::vector<CallOperand> operands);

// The written arena: sentinels, and the result that is expected.
CallOperand ExpectOut(const std::vector<float>& expected, const std::vector<float>& tolerances);

// Rows at positions of sequences, each sequence with pages of its own in no order.
class CaseBatch {
 public:
  // Enough pages for the largest position of each sequence.
  CaseBatch(std::vector<BatchRow> rows, std::vector<uint32_t> output_rows);

  const std::vector<BatchRow>& rows() const { return rows_; }
  uint32_t row_count() const { return static_cast<uint32_t>(rows_.size()); }
  uint32_t page_count() const { return page_count_; }
  const std::vector<uint32_t>& pages(uint32_t sequence) const { return pages_[sequence]; }
  StateShape state() const { return layout_.shape; }
  CallOperand operand() const;

 private:
  std::vector<BatchRow> rows_;
  std::vector<uint32_t> output_rows_;
  std::vector<std::vector<uint32_t>> pages_;
  uint32_t page_count_ = 0;
  StateLayout layout_;
};

// A cache of `layer_count` layers, of which one is looked at: the bytes as the CPU lays them out.
class CaseCache {
 public:
  CaseCache(uint32_t head_dim, uint32_t kv_head_count, bool is_f32, uint32_t page_count);

  const CachePlace& place() const { return place_; }
  uint32_t words() const { return static_cast<uint32_t>(words_.size()); }
  void Fill(Lcg& random);
  void FillWith(uint32_t word);
  // A row of K or V of one token, as floats.
  void Store(uint32_t page, bool is_value, uint32_t kv_head, uint32_t token, const float* values);
  float Load(uint32_t page, bool is_value, uint32_t kv_head, uint32_t token, uint32_t index) const;
  const std::vector<uint32_t>& bytes() const { return words_; }

 private:
  uint32_t WordOf(uint32_t page, bool is_value, uint32_t kv_head, uint32_t token) const;

  CachePlace place_;
  std::vector<uint32_t> words_;
};

}  // namespace nonstop
