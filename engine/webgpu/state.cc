#include "webgpu/state.h"

#include <algorithm>

#include "base/check.h"

namespace nonstop {

void AddStateConstants(const StateShape& shape, std::vector<KernelConstant>* constants) {
  constants->push_back(KernelConstant::Uint("STATE_MAX_ROWS", shape.max_rows));
  constants->push_back(KernelConstant::Uint("STATE_MAX_PAGES", shape.max_pages));
}

std::vector<uint32_t> EncodeState(const StateLayout& layout, const Batch& batch) {
  CHECK(batch.rows.size() <= layout.shape.max_rows);
  CHECK(batch.page_tables.size() <= layout.max_sequence_count);
  std::vector<uint32_t> words(layout.word_count(), 0);
  words[StateLayout::kRowCount] = static_cast<uint32_t>(batch.rows.size());
  words[StateLayout::kOutputCount] = static_cast<uint32_t>(batch.output_rows.size());
  uint32_t* row_words = &words[StateLayout::kRows];
  for (const BatchRow& row : batch.rows) {
    CHECK(row.sequence < batch.page_tables.size());
    *row_words++ = static_cast<uint32_t>(row.id);
    *row_words++ = row.position;
    *row_words++ = row.sequence;
    *row_words++ = StateLayout::kNoOutput;
  }
  for (size_t i = 0; i < batch.output_rows.size(); ++i) {
    const uint32_t row = batch.output_rows[i];
    words[layout.output_rows() + i] = row;
    words[StateLayout::kRows + StateLayout::kRowWords * row + 3] = static_cast<uint32_t>(i);
  }
  for (size_t i = 0; i < batch.page_tables.size(); ++i) {
    CHECK(batch.page_tables[i].size() <= layout.shape.max_pages);
    std::copy(
        batch.page_tables[i].begin(), batch.page_tables[i].end(),
        words.begin() + layout.page_tables() + static_cast<ptrdiff_t>(i * layout.shape.max_pages));
  }
  return words;
}

}  // namespace nonstop
