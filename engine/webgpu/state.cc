#include "webgpu/state.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/check.h"
#include "base/exact_math.h"

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
  uint32_t row_begin = 0;
  for (uint32_t sequence = 0; sequence <= StateLayout::kMostPrompts; ++sequence) {
    while (row_begin < batch.rows.size() && batch.rows[row_begin].sequence < sequence) ++row_begin;
    words[StateLayout::kFirstRows + sequence] = row_begin;
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

namespace {

bool IsGreedy(const SamplingOptions& sampling) { return sampling.temperature <= 0.0f; }

void EncodeReply(const ReplyState& reply, uint32_t* words) {
  using Layout = ReplyLayout;
  const SamplingOptions& sampling = *reply.sampling;
  const auto store = [words](uint32_t at, float value) {
    words[at] = std::bit_cast<uint32_t>(value);
  };
  words[Layout::kIndex] = reply.token_index;
  words[Layout::kRemaining] = reply.remaining_count;
  words[Layout::kSeed] = static_cast<uint32_t>(sampling.seed);
  words[Layout::kSeed + 1] = static_cast<uint32_t>(sampling.seed >> 32);
  store(Layout::kTemperature, sampling.temperature);
  words[Layout::kTopK] = IsGreedy(sampling) ? 0 : static_cast<uint32_t>(sampling.top_k);
  store(Layout::kTopP, sampling.top_p);
  store(Layout::kLogMinP, sampling.min_p > 0.0f ? static_cast<float>(ExactLog(sampling.min_p))
                                                : -std::numeric_limits<float>::max());
  store(Layout::kRepeat, sampling.repeat_penalty);
  store(Layout::kPresence, sampling.presence_penalty);
  store(Layout::kFrequency, sampling.frequency_penalty);
  words[Layout::kPenaltyCount] =
      HasPenalties(sampling) ? static_cast<uint32_t>(sampling.penalty_last_n) : 0;
  words[Layout::kIgnoresEnd] = reply.ignores_end ? 1 : 0;
  words[Layout::kBiasCount] = static_cast<uint32_t>(reply.biases.size());
  const size_t end = reply.history.size();
  words[Layout::kHistoryEnd] = static_cast<uint32_t>(end);
  for (size_t t = end - std::min<size_t>(end, Layout::kWindow); t < end; ++t) {
    words[Layout::kHistory + t % Layout::kWindow] = static_cast<uint32_t>(reply.history[t]);
  }
  uint32_t* bias_words = words + Layout::kBias;
  for (const LogitBias& bias : reply.biases) {
    *bias_words++ = static_cast<uint32_t>(bias.id);
    *bias_words++ = std::bit_cast<uint32_t>(bias.bias);
  }
}

}  // namespace

bool CanChooseOnGpu(const ReplyState& reply, std::span<const TokenId> end_tokens) {
  constexpr int kWindow = ReplyLayout::kWindow;
  const SamplingOptions& sampling = *reply.sampling;
  if (HasPenalties(sampling) &&
      (sampling.penalty_last_n < 0 || sampling.penalty_last_n > kWindow)) {
    return false;
  }
  // Of a longer list the best few do not tell what top-p leaves.
  if (!IsGreedy(sampling) && (sampling.top_k <= 0 || sampling.top_k > kMostKeptOnGpu)) return false;
  return reply.biases.size() <= ReplyLayout::kMostBiases &&
         end_tokens.size() <= StateLayout::kEndTokenCount;
}

void EncodeReplies(const StateLayout& layout, std::span<const ReplyState> replies,
                   std::span<const TokenId> end_tokens, std::vector<uint32_t>* words) {
  CHECK(replies.size() == (*words)[StateLayout::kOutputCount]);
  (*words)[StateLayout::kLiveCount] = static_cast<uint32_t>(replies.size());
  for (uint32_t i = 0; i < StateLayout::kEndTokenCount; ++i) {
    const size_t at = std::min<size_t>(i, end_tokens.size() - 1);
    (*words)[StateLayout::kEndTokens + i] =
        end_tokens.empty() ? UINT32_MAX : static_cast<uint32_t>(end_tokens[at]);
  }
  for (size_t i = 0; i < replies.size(); ++i) {
    EncodeReply(replies[i], &(*words)[layout.replies() + i * ReplyLayout::kWords]);
  }
}

}  // namespace nonstop
