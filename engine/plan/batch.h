// What one run of a plan computes: rows (tokens) of one or several sequences.
#pragma once

#include <cstdint>
#include <span>

#include "text/tokenizer.h"

namespace nonstop {

struct BatchRow {
  TokenId id;
  uint32_t position;  // in its sequence
  uint32_t sequence;  // index into Batch::page_tables
};

struct Batch {
  std::span<const BatchRow> rows;
  // Rows whose logits are wanted, ascending. In a decode plan: all rows.
  std::span<const uint32_t> output_rows;
  // Of each sequence: its pages, one for each kKvPageTokenCount tokens, written or to be written.
  std::span<const std::span<const uint32_t>> page_tables;
};

}  // namespace nonstop
