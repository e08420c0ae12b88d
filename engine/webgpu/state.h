// The state buffer: all that changes from one run to the next. The host writes it whole before a
// run; between tokens that are in flight the GPU advances it itself. kernels/state.wgsl reads it.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/batch.h"
#include "webgpu/kernel_source.h"

namespace nonstop {

// Sizes that the state buffer's layout depends on (kernels/state.wgsl).
struct StateShape {
  uint32_t max_rows = 0;
  uint32_t max_pages = 0;  // of one sequence

  bool operator==(const StateShape&) const = default;
};

// Offsets in words. The constants STATE_MAX_ROWS and STATE_MAX_PAGES give WGSL the same layout.
struct StateLayout {
  static constexpr uint32_t kRowCount = 0;
  static constexpr uint32_t kOutputCount = 1;
  static constexpr uint32_t kStop = 2;
  static constexpr uint32_t kRows = 16;  // (token id, position, sequence, output index)
  static constexpr uint32_t kRowWords = 4;
  static constexpr uint32_t kNoOutput = UINT32_MAX;

  StateShape shape;
  uint32_t max_sequence_count = 1;

  uint32_t output_rows() const { return kRows + kRowWords * shape.max_rows; }
  uint32_t page_tables() const { return output_rows() + shape.max_rows; }
  uint32_t word_count() const { return page_tables() + max_sequence_count * shape.max_pages; }
};

// What state.wgsl needs to know of it.
void AddStateConstants(const StateShape& shape, std::vector<KernelConstant>* constants);

// What the kernels of a run read. The batch must fit the layout.
std::vector<uint32_t> EncodeState(const StateLayout& layout, const Batch& batch);

}  // namespace nonstop
