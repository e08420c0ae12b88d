// Replies that the backend goes on with by itself, some steps ahead of the host, against the same
// requests served from logits. The backend is the CPU's with a ReplyRun around it that works as a
// GPU does: a step is computed when it is queued and told of later.
#include <gtest/gtest.h>

#include <deque>

#include "cpu/ops.h"
#include "session/engine_for_test.h"

namespace nonstop {
namespace {

struct AheadOptions {
  uint32_t step_count = 4;
  uint32_t host_every = 0;    // not 0: every so many tokens are left to the host
  uint32_t prompt_count = 1;  // taken in together
};

class AheadBackend final : public Backend, public ReplyRun {
 public:
  AheadBackend(std::unique_ptr<Backend> inner, std::vector<TokenId> end_tokens,
               const AheadOptions& options)
      : inner_(std::move(inner)), end_tokens_(std::move(end_tokens)), options_(options) {}

  uint32_t prefill_row_count() const override { return inner_->prefill_row_count(); }
  uint32_t prefill_sequence_count() const override { return options_.prompt_count; }
  uint32_t decode_row_count() const override { return inner_->decode_row_count(); }
  Status PreparePages(std::span<const uint32_t> pages) override {
    return inner_->PreparePages(pages);
  }
  void Begin(Phase phase, const Batch& batch) override {
    is_ahead_ = false;
    if (phase == Phase::kPrefill) prompt_counts_.push_back(batch.page_tables.size());
    inner_->Begin(phase, batch);
  }
  Result<WorkStatus> Work(const Clock& clock, double deadline_us) override {
    if (!is_ahead_) return inner_->Work(clock, deadline_us);
    if (steps_.empty() || !told_to_wait_) {
      told_to_wait_ = true;
      return WorkStatus::kWaitGpu;
    }
    told_to_wait_ = false;
    chosen_ = steps_.front();
    steps_.pop_front();
    return WorkStatus::kDone;
  }
  std::span<const float> Logits(uint32_t output_row) const override {
    return inner_->Logits(output_row);
  }
  BackendStats stats() const override { return inner_->stats(); }
  ReplyRun* reply_run() override { return this; }

  bool CanChoose(const ReplyState& reply) const override { return reply.biases.empty(); }
  Status BeginReplies(const Batch& batch, std::span<const ReplyState> replies) override {
    is_ahead_ = true;
    has_stopped_ = false;
    steps_.clear();
    rows_.clear();
    for (size_t i = 0; i < replies.size(); ++i) {
      EXPECT_EQ(batch.output_rows[i], i);
      const ReplyState& reply = replies[i];
      rows_.push_back({.row = batch.rows[i],
                       .sampler = Sampler(*reply.sampling, {}),
                       .history = {reply.history.begin(), reply.history.end()},
                       .token_index = reply.token_index,
                       .remaining_count = reply.remaining_count,
                       .ignores_end = reply.ignores_end});
    }
    return Compute(batch.page_tables);
  }
  uint32_t wanted_step_count() const override { return options_.step_count; }
  Status QueueStep(std::span<const std::span<const uint32_t>> page_tables) override {
    EXPECT_LT(steps_.size(), options_.step_count);
    return Compute(page_tables);
  }
  std::span<const TokenId> Chosen() const override { return chosen_; }

  uint32_t longest_queue() const { return longest_queue_; }
  // Sequences of each run of prompts.
  const std::vector<size_t>& prompt_counts() const { return prompt_counts_; }

 private:
  struct Row {
    BatchRow row;
    Sampler sampler;
    std::vector<TokenId> history;
    uint32_t token_index;
    uint32_t remaining_count;
    bool ignores_end;
    bool has_ended = false;
  };

  Status Compute(std::span<const std::span<const uint32_t>> page_tables) {
    std::vector<TokenId> chosen(rows_.size(), kNoToken);
    if (!has_stopped_) {
      std::vector<BatchRow> batch_rows;
      std::vector<uint32_t> output_rows;
      for (const Row& row : rows_) {
        EXPECT_GT(page_tables[batch_rows.size()].size(), row.row.position / cpu::kKvPageTokenCount);
        output_rows.push_back(static_cast<uint32_t>(batch_rows.size()));
        batch_rows.push_back(row.row);
      }
      inner_->Begin(Phase::kDecode,
                    {.rows = batch_rows, .output_rows = output_rows, .page_tables = page_tables});
      for (WorkStatus status = WorkStatus::kMoreWork; status != WorkStatus::kDone;) {
        ASSIGN_OR_RETURN(status, inner_->Work(clock_, 1e18));
      }
      for (size_t i = 0; i < rows_.size(); ++i) {
        ASSIGN_OR_RETURN(chosen[i], Advance(rows_[i], inner_->Logits(static_cast<uint32_t>(i))));
      }
    }
    steps_.push_back(std::move(chosen));
    longest_queue_ = std::max(longest_queue_, static_cast<uint32_t>(steps_.size()));
    return {};
  }

  Result<TokenId> Advance(Row& row, std::span<const float> logits) {
    if (row.has_ended) return TokenId{0};  // has no meaning
    if (options_.host_every != 0 && row.token_index % options_.host_every == 0) {
      row.has_ended = has_stopped_ = true;
      return kNoToken;
    }
    ASSIGN_OR_RETURN(const TokenId token, row.sampler.Sample(logits, row.history, row.token_index));
    row.history.push_back(token);
    row.row.id = token;
    ++row.row.position;
    ++row.token_index;
    const bool is_end =
        std::find(end_tokens_.begin(), end_tokens_.end(), token) != end_tokens_.end();
    row.has_ended = --row.remaining_count == 0 || (is_end && !row.ignores_end);
    return token;
  }

  std::unique_ptr<Backend> inner_;
  std::vector<TokenId> end_tokens_;
  AheadOptions options_;
  SteadyClock clock_;
  bool is_ahead_ = false;
  bool has_stopped_ = false;
  bool told_to_wait_ = false;
  std::vector<Row> rows_;
  std::deque<std::vector<TokenId>> steps_;
  std::vector<TokenId> chosen_;
  uint32_t longest_queue_ = 0;
  std::vector<size_t> prompt_counts_;
};

class AheadFactory final : public BackendFactory {
 public:
  AheadFactory(std::unique_ptr<BackendFactory> inner, const AheadOptions& options,
               AheadBackend** made)
      : inner_(std::move(inner)), options_(options), made_(made) {}
  std::string_view name() const override { return inner_->name(); }
  uint32_t default_prefill_chunk() const override { return inner_->default_prefill_chunk(); }
  uint32_t wanted_prompt_count() const override { return options_.prompt_count; }
  WeightSink& weights() override { return inner_->weights(); }
  Result<std::unique_ptr<Backend>> Create(const Plan& prefill, const Plan& decode,
                                          const ModelSpec& spec,
                                          const BackendOptions& options) override {
    ASSIGN_OR_RETURN(std::unique_ptr<Backend> inner,
                     inner_->Create(prefill, decode, spec, options));
    auto backend = std::make_unique<AheadBackend>(std::move(inner), options.end_tokens, options_);
    *made_ = backend.get();
    return std::unique_ptr<Backend>(std::move(backend));
  }

 private:
  std::unique_ptr<BackendFactory> inner_;
  AheadOptions options_;
  AheadBackend** made_;
};

// The same model twice: served from logits, and ahead.
class ReplyRunTest : public testing::Test {
 protected:
  void Load(uint32_t sequence_count, const AheadOptions& ahead = {},
            uint32_t context_length = 600) {
    EngineOptions options;
    options.context_length = context_length;
    options.max_sequence_count = sequence_count;
    options.prefill_chunk = 64;
    const std::string path = "tests/data/tiny/llama_tied.gguf";
    auto plain = TestEngine::Load({path}, options);
    ASSERT_TRUE(plain.ok()) << plain.error().message;
    plain_ = std::move(*plain);
    auto factory =
        std::make_unique<AheadFactory>(MakeCpuFactory(&pool_, options), ahead, &backend_);
    auto engine = TestEngine::Load({path}, options, Loader::kMaxPieceBytes, std::move(factory));
    ASSERT_TRUE(engine.ok()) << engine.error().message;
    ahead_ = std::move(*engine);
  }

  static RequestOptions Request(uint32_t prompt_count, uint32_t max_tokens, uint64_t seed) {
    RequestOptions options;
    for (uint32_t i = 0; i < prompt_count; ++i) {
      options.prompt.push_back(static_cast<TokenId>(10 + (i * 7 + seed) % 200));
    }
    options.max_tokens = max_tokens;
    options.sampling.temperature = seed % 2 == 0 ? 0.0f : 1.2f;
    options.sampling.seed = seed;
    return options;
  }

  void ExpectSame(const Reply& got, const Reply& want, const std::string& what) {
    EXPECT_EQ(got.error, "") << what;
    EXPECT_EQ(got.tokens, want.tokens) << what;
    EXPECT_EQ(got.text, want.text) << what;
    EXPECT_EQ(got.reason, want.reason) << what;
  }

  void ExpectSameAlone(const RequestOptions& options, const std::string& what) {
    ExpectSame(ahead_->Run(options), plain_->Run(options), what);
  }

  void Drain(TestEngine& engine) {
    while (engine.engine().Pump(1e9) != PumpStatus::kIdle) {
    }
  }

  cpu::Pool pool_;
  void ExpectSameTogether(const std::vector<RequestOptions>& requests) {
    std::vector<uint32_t> ids;
    for (const RequestOptions& request : requests) ids.push_back(*ahead_->engine().Start(request));
    Drain(*ahead_);
    for (size_t i = 0; i < requests.size(); ++i) {
      ExpectSame(ahead_->sink().replies[ids[i]], plain_->Run(requests[i]),
                 "request " + std::to_string(i));
    }
  }

  AheadBackend* backend_ = nullptr;
  std::unique_ptr<TestEngine> plain_;
  std::unique_ptr<TestEngine> ahead_;
};

TEST_F(ReplyRunTest, GivesTheTokensThatTheHostWouldChoose) {
  Load(1);
  for (uint64_t seed = 0; seed < 6; ++seed) {
    ExpectSameAlone(Request(5, 40, seed), "seed " + std::to_string(seed));
  }
  EXPECT_EQ(backend_->longest_queue(), 4u);
}

// The cache's pages hold 256 tokens; the context's end and one token are lengths too.
TEST_F(ReplyRunTest, CrossesPagesAndEndsWithTheContext) {
  Load(1);
  RequestOptions options = Request(250, 300, 1);
  options.ignores_end = true;
  ExpectSameAlone(options, "two pages");
  options.max_tokens = 0;
  ExpectSameAlone(options, "the context");
  EXPECT_EQ(ahead_->Run(options).tokens.size(), 350u);
  options.max_tokens = 1;
  ExpectSameAlone(options, "one token");
  options.max_tokens = 2;
  ExpectSameAlone(options, "two tokens");
}

TEST_F(ReplyRunTest, StopsAtAStopStringAndAnEndToken) {
  Load(1);
  RequestOptions options = Request(5, 60, 1);
  options.ignores_end = true;
  const std::string whole = plain_->Run(options).text;
  ASSERT_GT(whole.size(), 12u);
  size_t at = whole.size() / 2;
  while ((static_cast<unsigned char>(whole[at]) & 0xc0) == 0x80) ++at;
  options.stop = {whole.substr(at, 1)};
  if ((static_cast<unsigned char>(whole[at]) & 0x80) == 0) ExpectSameAlone(options, "stop string");
  // Hot enough that the end token comes, in some of these.
  uint32_t stop_count = 0;
  for (uint64_t seed = 1; seed < 60; seed += 2) {
    RequestOptions hot = Request(3, 200, seed);
    hot.sampling.temperature = 3.0f;
    hot.sampling.top_k = 0;
    hot.sampling.top_p = 1.0f;
    hot.sampling.min_p = 0.0f;
    ExpectSameAlone(hot, "hot " + std::to_string(seed));
    stop_count += ahead_->Run(hot).reason == FinishReason::kStop;
  }
  EXPECT_GT(stop_count, 3u);
}

TEST_F(ReplyRunTest, LeavesSomeTokensToTheHost) {
  Load(4, {.step_count = 3, .host_every = 5});
  ExpectSameAlone(Request(7, 33, 1), "alone");
  std::vector<uint32_t> ids;
  for (uint32_t i = 0; i < 4; ++i)
    ids.push_back(*ahead_->engine().Start(Request(4 + i, 20 + i, i)));
  Drain(*ahead_);
  for (uint32_t i = 0; i < 4; ++i) {
    ExpectSame(ahead_->sink().replies[ids[i]], plain_->Run(Request(4 + i, 20 + i, i)),
               "sequence " + std::to_string(i));
  }
}

// Of different lengths, more than fit at once, some with what only the host can do.
TEST_F(ReplyRunTest, ServesManyTogether) {
  Load(4);
  std::vector<RequestOptions> requests;
  for (uint32_t i = 0; i < 9; ++i) requests.push_back(Request(3 + 13 * i, 5 + 7 * i, i));
  requests[3].biases = {{11, 2.0f}};
  requests[5].top_logprobs = 3;
  requests[6].forced = {5, 6, 7};
  ExpectSameTogether(requests);
}

// Prompts that fill a run of 64 rows together, are cut by its end, or end in the next one.
TEST_F(ReplyRunTest, TakesPromptsInTogether) {
  Load(4, {.prompt_count = 3});
  std::vector<RequestOptions> requests;
  for (uint32_t count : {20u, 9u, 35u, 100u, 1u, 60u, 4u}) {
    requests.push_back(Request(count, 12, count));
  }
  ExpectSameTogether(requests);
  // 20 + 9 + 35; then 100 by itself, its end with those that have come since.
  const std::vector<size_t>& counts = backend_->prompt_counts();
  ASSERT_GE(counts.size(), 3u);
  EXPECT_EQ(counts[0], 3u);
  EXPECT_EQ(counts[1], 1u);
}

TEST_F(ReplyRunTest, ARequestThatComesMeanwhileJoins) {
  Load(2);
  const uint32_t first = *ahead_->engine().Start(Request(4, 80, 1));
  for (int i = 0; i < 15; ++i) ahead_->engine().Pump(0.0);
  const uint32_t second = *ahead_->engine().Start(Request(150, 20, 2));
  Drain(*ahead_);
  ExpectSame(ahead_->sink().replies[first], plain_->Run(Request(4, 80, 1)), "first");
  ExpectSame(ahead_->sink().replies[second], plain_->Run(Request(150, 20, 2)), "second");
}

TEST_F(ReplyRunTest, ACancelledReplyEndsAndTheOthersGoOn) {
  Load(2);
  for (const bool has_other : {false, true}) {
    const uint32_t cancelled = *ahead_->engine().Start(Request(4, 500, 1));
    const uint32_t other = has_other ? *ahead_->engine().Start(Request(6, 60, 2)) : 0;
    for (int i = 0; i < 35; ++i) ahead_->engine().Pump(0.0);
    ahead_->engine().Cancel(cancelled);
    Drain(*ahead_);
    const Reply& reply = ahead_->sink().replies[cancelled];
    EXPECT_EQ(reply.reason, FinishReason::kAbort);
    EXPECT_GT(reply.tokens.size(), 1u);
    EXPECT_LT(reply.tokens.size(), 40u);
    if (has_other) {
      ExpectSame(ahead_->sink().replies[other], plain_->Run(Request(6, 60, 2)), "other");
    }
    ExpectSameAlone(Request(5, 30, 3), "afterwards");
  }
}

}  // namespace
}  // namespace nonstop
