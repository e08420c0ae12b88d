// Sampling on the GPU against session/sampler.h: what is chosen, and the whole state after it.
#include <bit>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "session/sampler.h"
#include "webgpu/call_cases.h"
#include "webgpu/sampling.h"

namespace nonstop {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr TokenId kEndToken = 7;
// Draws nearer to an edge than this may differ: exp is not exact on a GPU.
constexpr double kEdge = 1e-3;

// A row with its reply, and what is expected of it.
struct Row {
  SamplingOptions sampling;
  std::vector<LogitBias> biases = {};
  std::vector<TokenId> history = {1, 2, 3};
  uint32_t token_index = 5;
  uint32_t remaining_count = 100;
  bool ignores_end = false;
  bool has_ended = false;
  bool needs_host = false;  // expected
};

struct Case {
  const char* name;
  uint32_t vocabulary_size;
  std::vector<Row> rows;
  void (*shape)(std::vector<float>& logits);  // of all rows; null: as they are
  bool is_stopped = false;
};

SamplingOptions Greedy() { return {.temperature = 0.0f}; }

ReplyState StateOf(const Row& row) {
  return {.sampling = &row.sampling,
          .biases = row.biases,
          .history = row.history,
          .token_index = row.token_index,
          .remaining_count = row.remaining_count,
          .ignores_end = row.ignores_end};
}

// How far the random number is from where the next candidate begins, of the whole weight.
double DistanceToEdge(std::span<const Candidate> candidates, const SamplingOptions& sampling,
                      uint64_t token_index) {
  double sum = 0.0;
  for (const Candidate& candidate : candidates) sum += candidate.weight;
  const double number = static_cast<double>(PhiloxUniform(sampling.seed, token_index));
  double nearest = 1.0;
  double reached = 0.0;
  for (size_t i = 0; i + 1 < candidates.size(); ++i) {
    reached += candidates[i].weight / sum;
    nearest = std::min(nearest, std::abs(reached - number));
  }
  return nearest;
}

// What is chosen, with a seed whose draw is clear.
TokenId Choose(Row& row, std::span<const float> logits) {
  for (;; ++row.sampling.seed) {
    Sampler sampler(row.sampling, row.biases);
    const auto candidates = sampler.Distribution(logits, row.history);
    CHECK(candidates.ok());
    if (DistanceToEdge(*candidates, row.sampling, row.token_index) < kEdge) continue;
    return *sampler.Sample(logits, row.history, row.token_index);
  }
}

uint32_t KeyOf(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return value < 0.0f ? ~bits : bits | 0x80000000u;
}

// One of the samplers' own adjusted logits, by asking it for a distribution of this token alone.
float AdjustedLogit(const Row& row, std::span<const float> logits, uint32_t id) {
  std::vector<float> alone(logits.size(), -kInfinity);
  alone[id] = logits[id];
  SamplingOptions sampling = row.sampling;
  sampling.temperature = 0.0f;
  Sampler sampler(sampling, row.biases);
  const auto only = sampler.Distribution(alone, row.history);
  return only.ok() ? (*only)[0].logit : -kInfinity;
}

class SamplingCase {
 public:
  SamplingCase(const Case& one, CaseWriter& writer) : case_(one), writer_(writer), rows_(one.rows) {
    const auto row_count = static_cast<uint32_t>(rows_.size());
    // Of all cases, so that they share kernels.
    layout_ = {.shape = {.max_rows = 4, .max_pages = 2}, .max_sequence_count = 3};
    op_ = {.logits = {0, kArenaMargin},
           .best = {1, 0},
           .vocabulary_size = one.vocabulary_size,
           .layout = layout_};
    Lcg random{one.vocabulary_size + row_count};
    logits_ = RandomFloats(random, size_t{row_count} * one.vocabulary_size, 8.0f);
    if (one.shape != nullptr) one.shape(logits_);
  }

  void Add() {
    std::vector<TokenId> chosen(rows_.size(), kNoToken);
    for (size_t i = 0; i < rows_.size(); ++i) {
      if (!rows_[i].needs_host) chosen[i] = Choose(rows_[i], LogitsOf(i));
    }
    const std::vector<uint32_t> before = StateBefore();
    const std::vector<uint32_t> best = Best();
    const KernelCall scan = MakeScanCall(op_);
    const std::string name = std::string("sampling ") + case_.name;
    const auto row_count = static_cast<uint32_t>(rows_.size());
    const CallOperand logits = {KernelBinding::kActivationsIn, CaseInput(InArena(logits_))};
    const std::vector<uint32_t> nothing(best.size(), 0xabcdu);
    if (!case_.is_stopped && case_.shape == nullptr) {
      AddCallCase(writer_, name + ", scan", scan, row_count,
                  {logits,
                   {KernelBinding::kBestOut, CaseOutput(nothing, best)},
                   {KernelBinding::kState, CaseInput(before)}});
    }
    AddCallCase(writer_, name, MakeChooseCall(op_), row_count,
                {logits,
                 {KernelBinding::kBestIn, CaseInput(best)},
                 {KernelBinding::kStateOut, CaseOutput(before, StateAfter(before, chosen))}});
  }

 private:
  std::span<const float> LogitsOf(size_t row) const {
    return std::span(logits_).subspan(row * case_.vocabulary_size, case_.vocabulary_size);
  }

  std::vector<uint32_t> StateBefore() const {
    std::vector<BatchRow> batch_rows;
    std::vector<uint32_t> output_rows;
    std::vector<ReplyState> replies;
    const std::vector<uint32_t> pages = {0, 1};
    const std::vector<std::span<const uint32_t>> tables(rows_.size(), pages);
    for (const Row& row : rows_) {
      const auto index = static_cast<uint32_t>(batch_rows.size());
      output_rows.push_back(index);
      batch_rows.push_back({row.history.back(), 100 + index, index});
      replies.push_back(StateOf(row));
      CHECK(CanChooseOnGpu(replies.back(), {}));
    }
    std::vector<uint32_t> words = EncodeState(
        layout_, {.rows = batch_rows, .output_rows = output_rows, .page_tables = tables});
    const TokenId end_tokens[] = {3, kEndToken};
    EncodeReplies(layout_, replies, end_tokens, &words);
    for (size_t i = 0; i < rows_.size(); ++i) {
      if (!rows_[i].has_ended) continue;
      words[layout_.replies() + i * ReplyLayout::kWords + ReplyLayout::kEnded] = 1;
      --words[StateLayout::kLiveCount];
    }
    words[StateLayout::kStop] = case_.is_stopped ? 1 : 0;
    return words;
  }

  // (key, id) of the best of each group; the groups are those of sample_scan.wgsl.
  std::vector<uint32_t> Best() const {
    const uint32_t group_count = SampleBestWords() / 2;
    std::vector<uint32_t> best(rows_.size() * SampleBestWords(), 0);
    for (size_t i = 0; i < rows_.size(); ++i) {
      uint32_t* row_best = &best[i * SampleBestWords()];
      const std::span<const float> logits = LogitsOf(i);
      for (uint32_t id = 0; id < logits.size(); ++id) {
        const bool is_number = !std::isnan(logits[id]);
        const bool is_plain = rows_[i].biases.empty() && rows_[i].sampling.repeat_penalty == 1.0f;
        const float logit =
            is_plain || !is_number ? logits[id] : AdjustedLogit(rows_[i], logits, id);
        const uint32_t key = is_number ? KeyOf(logit) : UINT32_MAX;
        uint32_t* pair = row_best + 2 * size_t{id % group_count};
        if (key <= pair[0]) continue;
        pair[0] = key;
        pair[1] = id;
      }
    }
    return best;
  }

  std::vector<uint32_t> StateAfter(std::vector<uint32_t> words,
                                   const std::vector<TokenId>& chosen) const {
    if (case_.is_stopped) return words;
    bool needs_host = false;
    for (size_t i = 0; i < rows_.size(); ++i) {
      const Row& row = rows_[i];
      uint32_t* reply = &words[layout_.replies() + i * ReplyLayout::kWords];
      uint32_t* record = &words[layout_.records() + i * RecordLayout::kWords];
      record[RecordLayout::kIndex] = row.token_index;
      record[RecordLayout::kNeedsHost] = row.needs_host && !row.has_ended ? 1 : 0;
      // Where the host must choose, the record's token has no meaning: the best of all.
      record[RecordLayout::kToken] =
          static_cast<uint32_t>(row.needs_host ? static_cast<TokenId>(BestIdOf(i)) : chosen[i]);
      if (row.has_ended) continue;
      needs_host |= row.needs_host;
      bool ends = row.needs_host;
      if (!row.needs_host) {
        uint32_t* row_words = &words[StateLayout::kRows + StateLayout::kRowWords * i];
        row_words[0] = static_cast<uint32_t>(chosen[i]);
        row_words[1] += 1;
        reply[ReplyLayout::kIndex] += 1;
        reply[ReplyLayout::kRemaining] -= 1;
        const uint32_t end = reply[ReplyLayout::kHistoryEnd]++;
        reply[ReplyLayout::kHistory + end % ReplyLayout::kWindow] = row_words[0];
        const bool is_end = chosen[i] == 3 || chosen[i] == kEndToken;
        ends = (is_end && !row.ignores_end) || reply[ReplyLayout::kRemaining] == 0;
      }
      reply[ReplyLayout::kEnded] = ends ? 1 : 0;
      words[StateLayout::kLiveCount] -= ends ? 1 : 0;
    }
    if (words[StateLayout::kLiveCount] == 0 || needs_host) words[StateLayout::kStop] = 1;
    return words;
  }

  uint32_t BestIdOf(size_t row) const {
    const std::vector<uint32_t> best = Best();
    uint32_t key = 0;
    uint32_t id = 0;
    for (size_t i = row * SampleBestWords(); i < (row + 1) * SampleBestWords(); i += 2) {
      if (best[i] < key || (best[i] == key && best[i + 1] >= id)) continue;
      key = best[i];
      id = best[i + 1];
    }
    return id;
  }

  const Case& case_;
  CaseWriter& writer_;
  std::vector<Row> rows_;
  StateLayout layout_;
  SampleOp op_;
  std::vector<float> logits_;
};

// Distinct tokens whose logits decide.
void Peak(std::vector<float>& logits) { logits[kEndToken] = 30.0f; }
void TwoPeaks(std::vector<float>& logits) {
  for (size_t id : {4500u, 402u, 4901u, 999u}) logits[id] = 30.0f;
}
void AllEqual(std::vector<float>& logits) { std::fill(logits.begin(), logits.end(), 1.5f); }
void AllForbidden(std::vector<float>& logits) {
  std::fill(logits.begin(), logits.end(), -kInfinity);
}
void FewAllowed(std::vector<float>& logits) {
  for (size_t i = 0; i < logits.size(); ++i) {
    if (i % 700 != 5) logits[i] = -kInfinity;
  }
}
void NotANumber(std::vector<float>& logits) {
  logits[77] = std::numeric_limits<float>::quiet_NaN();
}

std::vector<TokenId> LongHistory() {
  std::vector<TokenId> history;
  for (TokenId i = 0; i < 150; ++i) history.push_back(i * i % 97);
  return history;
}

std::vector<Case> Cases() {
  const std::vector<LogitBias> biases = {{11, 20.0f}, {12, 20.5f}, {13, -kInfinity}, {11, 1.0f}};
  const SamplingOptions hot = {.temperature = 1.7f, .top_k = 64, .top_p = 1.0f, .min_p = 0.0f};
  SamplingOptions penalised = {.temperature = 0.9f, .top_k = 20, .repeat_penalty = 1.8f};
  penalised.presence_penalty = 0.7f;
  penalised.frequency_penalty = 0.3f;
  SamplingOptions short_window = penalised;
  short_window.penalty_last_n = 5;
  SamplingOptions greedy_penalised = penalised;
  greedy_penalised.temperature = 0.0f;
  return {
      {"greedy", 5000, {{.sampling = Greedy()}}, nullptr},
      {"greedy, the real vocabulary", 49152, {{.sampling = Greedy()}}, nullptr},
      {"greedy, equal logits", 5000, {{.sampling = Greedy()}}, TwoPeaks},
      {"greedy, a few tokens", 30, {{.sampling = Greedy(), .history = {1}}}, nullptr},
      {"defaults", 5000, {{.sampling = {}}}, nullptr},
      {"defaults, the real vocabulary", 49152, {{.sampling = {}}}, nullptr},
      {"top-k of 1", 5000, {{.sampling = {.top_k = 1}}}, nullptr},
      {"top-k of 64, hot", 5000, {{.sampling = hot}}, nullptr},
      {"top-k past the vocabulary", 30, {{.sampling = hot, .history = {1}}}, nullptr},
      {"top-p", 5000, {{.sampling = {.temperature = 3.0f, .top_p = 0.3f, .min_p = 0.0f}}}, nullptr},
      {"top-p of 0", 5000, {{.sampling = {.temperature = 3.0f, .top_p = 0.0f}}}, nullptr},
      {"min-p", 5000, {{.sampling = {.temperature = 5.0f, .top_p = 1.0f, .min_p = 0.4f}}}, nullptr},
      {"equal logits at the edge", 5000, {{.sampling = {.top_k = 2, .top_p = 1.0f}}}, TwoPeaks},
      {"too many equal logits", 5000, {{.sampling = {}, .needs_host = true}}, AllEqual},
      {"few are allowed", 5000, {{.sampling = hot}}, FewAllowed},
      {"none is allowed", 5000, {{.sampling = {}, .needs_host = true}}, AllForbidden},
      {"not a number", 5000, {{.sampling = Greedy(), .needs_host = true}}, NotANumber},
      {"biases", 5000, {{.sampling = {}, .biases = biases}}, nullptr},
      {"penalties", 5000, {{.sampling = penalised, .history = LongHistory()}}, nullptr},
      {"penalties of few tokens",
       5000,
       {{.sampling = short_window, .history = LongHistory()}},
       nullptr},
      {"penalties of a short history",
       5000,
       {{.sampling = penalised, .history = {9, 9, 4}}},
       nullptr},
      {"greedy with penalties",
       5000,
       {{.sampling = greedy_penalised, .history = LongHistory()}},
       nullptr},
      {"the end token", 5000, {{.sampling = Greedy()}}, Peak},
      {"the end token, ignored", 5000, {{.sampling = Greedy(), .ignores_end = true}}, Peak},
      {"the last token", 5000, {{.sampling = {}, .remaining_count = 1}}, nullptr},
      {"stopped", 5000, {{.sampling = Greedy()}}, nullptr, true},
      {"three rows",
       5000,
       {{.sampling = Greedy()},
        {.sampling = {}, .history = LongHistory()},
        {.sampling = penalised}},
       nullptr},
      {"the first of two ends", 5000, {{.sampling = Greedy()}, {.sampling = {}}}, Peak},
      {"the second of two ends, the first had",
       5000,
       {{.sampling = Greedy(), .has_ended = true}, {.sampling = {}, .remaining_count = 1}},
       nullptr},
      {"one of two needs the host",
       5000,
       {{.sampling = {}, .needs_host = true}, {.sampling = {}}},
       NotANumber},
  };
}

}  // namespace

void AddSamplingCases(CaseWriter& writer) {
  for (const Case& one : Cases()) SamplingCase(one, writer).Add();
}

}  // namespace nonstop
