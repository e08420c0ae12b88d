// The state buffer: all that changes from one run to the next. The host writes it whole before a
// run; between tokens that are in flight the GPU advances it itself (kernels/sample_choose.wgsl).
// kernels/state.wgsl reads it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/batch.h"
#include "session/backend.h"
#include "webgpu/kernel_source.h"

namespace nonstop {

// Sizes that the state buffer's layout depends on (kernels/state.wgsl).
struct StateShape {
  uint32_t max_rows = 0;
  uint32_t max_pages = 0;  // of one sequence

  bool operator==(const StateShape&) const = default;
};

// Of top-k.
inline constexpr int32_t kMostKeptOnGpu = 64;

// A reply that the GPU goes on with: what sample_choose.wgsl needs of it. Words; the constants
// REPLY_… give WGSL the same layout.
struct ReplyLayout {
  static constexpr uint32_t kIndex = 0;      // of the token to be chosen
  static constexpr uint32_t kRemaining = 1;  // tokens to be chosen yet
  static constexpr uint32_t kSeed = 2;       // two words
  static constexpr uint32_t kTemperature = 4;
  static constexpr uint32_t kTopK = 5;  // 0: greedy
  static constexpr uint32_t kTopP = 6;
  static constexpr uint32_t kLogMinP = 7;
  static constexpr uint32_t kRepeat = 8;
  static constexpr uint32_t kPresence = 9;
  static constexpr uint32_t kFrequency = 10;
  static constexpr uint32_t kPenaltyCount = 11;  // tokens that penalties look at; 0: no penalties
  static constexpr uint32_t kHistoryEnd = 12;    // tokens so far; token t lies at t % kWindow
  static constexpr uint32_t kIgnoresEnd = 13;
  static constexpr uint32_t kEnded = 14;
  static constexpr uint32_t kBiasCount = 15;
  static constexpr uint32_t kHistory = 16;
  static constexpr uint32_t kWindow = 64;
  static constexpr uint32_t kBias = kHistory + kWindow;  // (id, bias)
  static constexpr uint32_t kMostBiases = 64;
  static constexpr uint32_t kWords = kBias + 2 * kMostBiases;
};

// What comes back of each row's token.
struct RecordLayout {
  static constexpr uint32_t kToken = 0;
  static constexpr uint32_t kIndex = 1;
  static constexpr uint32_t kNeedsHost = 2;  // not chosen here
  static constexpr uint32_t kWords = 4;
};

// Offsets in words. The constants STATE_MAX_ROWS and STATE_MAX_PAGES give WGSL the same layout.
struct StateLayout {
  static constexpr uint32_t kRowCount = 0;
  static constexpr uint32_t kOutputCount = 1;
  static constexpr uint32_t kStop = 2;
  static constexpr uint32_t kLiveCount = 3;  // replies that go on
  static constexpr uint32_t kArrived = 4;    // rows whose token is chosen, while they are
  static constexpr uint32_t kEndTokens = 5;  // that end a reply; unused ones repeat the last
  static constexpr uint32_t kEndTokenCount = 11;
  // In the place of end tokens, in runs of prompts: each sequence's first row, then the row count.
  static constexpr uint32_t kFirstRows = 5;
  static constexpr uint32_t kMostPrompts = 8;
  static constexpr uint32_t kRows = 16;  // (token id, position, sequence, output index)
  static constexpr uint32_t kRowWords = 4;
  static constexpr uint32_t kNoOutput = UINT32_MAX;

  StateShape shape;
  uint32_t max_sequence_count = 1;

  uint32_t output_rows() const { return kRows + kRowWords * shape.max_rows; }
  uint32_t page_tables() const { return output_rows() + shape.max_rows; }
  // Only where tokens are chosen on the GPU: max_sequence_count of each.
  uint32_t replies() const { return page_tables() + max_sequence_count * shape.max_pages; }
  uint32_t records() const { return replies() + max_sequence_count * ReplyLayout::kWords; }
  uint32_t word_count() const { return records() + max_sequence_count * RecordLayout::kWords; }
};

// What state.wgsl needs to know of it.
void AddStateConstants(const StateShape& shape, std::vector<KernelConstant>* constants);

// What the kernels of a run read. The batch must fit the layout.
std::vector<uint32_t> EncodeState(const StateLayout& layout, const Batch& batch);

// Whether the GPU can choose this reply's tokens as it is set.
bool CanChooseOnGpu(const ReplyState& reply, std::span<const TokenId> end_tokens);
// Adds the replies of a batch's output rows, in order, to its state; each one can be chosen for.
void EncodeReplies(const StateLayout& layout, std::span<const ReplyState> replies,
                   std::span<const TokenId> end_tokens, std::vector<uint32_t>* words);

}  // namespace nonstop
