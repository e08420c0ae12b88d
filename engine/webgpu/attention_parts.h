// What decode attention leaves to who reads its result: kernels/attention_parts.wgsl.
#pragma once

#include <cstdint>
#include <vector>

#include "webgpu/kernel_source.h"

namespace nonstop {

struct AttentionParts {
  // Tokens of a range are a multiple of this.
  static constexpr uint32_t kRangeStep = 32;

  uint32_t head_count = 0;
  uint32_t head_dim = 0;
  uint32_t window = 0;       // 0: sees all before
  uint32_t range_count = 0;  // most ranges of a context
  uint32_t row_limit = 0;    // most rows of a run

  bool operator==(const AttentionParts&) const = default;
  // f32 elements: sums, then stats.
  uint32_t stats_offset() const { return row_limit * range_count * head_count * head_dim; }
  uint32_t element_count() const {
    return stats_offset() + row_limit * range_count * head_count * 2;
  }
};

void AddPartsConstants(const AttentionParts& parts, std::vector<KernelConstant>* constants);

}  // namespace nonstop
