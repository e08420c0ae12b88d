// Requests through a real tiny model: what comes back, in which order, and what a cancelled, wrong
// or overlong request leaves behind.
#include "session/scheduler.h"

#include <gtest/gtest.h>

#include "session/engine_for_test.h"

namespace nonstop {
namespace {

EngineOptions SmallContext(uint32_t context_length = 64, uint32_t sequences = 1) {
  EngineOptions options;
  options.context_length = context_length;
  options.max_sequence_count = sequences;
  options.prefill_chunk = 8;
  return options;
}

std::unique_ptr<TestEngine> LoadTiny(const EngineOptions& options) {
  auto engine = TestEngine::Load({TestDataPath("tiny/llama_tied.gguf")}, options);
  if (!engine.ok()) {
    ADD_FAILURE() << engine.error().message;
    return nullptr;
  }
  return std::move(*engine);
}

RequestOptions Greedy(std::vector<TokenId> prompt, uint32_t max_tokens) {
  RequestOptions options;
  options.prompt = std::move(prompt);
  options.max_tokens = max_tokens;
  options.ignores_end = true;
  options.sampling.temperature = 0.0f;
  return options;
}

std::vector<TokenId> Prompt(size_t count, TokenId first = 10) {
  std::vector<TokenId> ids(count);
  for (size_t i = 0; i < count; ++i) ids[i] = first + static_cast<TokenId>(i * 7 % 200);
  return ids;
}

TEST(Scheduler, StopsAtMaxTokens) {
  auto engine = LoadTiny(SmallContext());
  const Reply reply = engine->Run(Greedy(Prompt(5), 7));
  EXPECT_EQ(reply.reason, FinishReason::kLength);
  EXPECT_EQ(reply.tokens.size(), 7u);
}

TEST(Scheduler, StopsWhenTheContextIsFull) {
  auto engine = LoadTiny(SmallContext(32));
  const Reply reply = engine->Run(Greedy(Prompt(20), 0));
  EXPECT_EQ(reply.reason, FinishReason::kLength);
  EXPECT_EQ(reply.tokens.size(), 12u);
}

TEST(Scheduler, RefusesWhatDoesNotFitTheContext) {
  auto engine = LoadTiny(SmallContext(32));
  const Reply reply = engine->Run(Greedy(Prompt(32), 1));
  EXPECT_EQ(reply.error_code, ErrorCode::kContextOverflow);
  EXPECT_EQ(reply.error, "The prompt has (32) tokens, the context holds (32) with the reply.");
  EXPECT_EQ(engine->Run(Greedy(Prompt(31), 9)).tokens.size(), 1u);  // still works
}

TEST(Scheduler, RefusesWrongRequests) {
  auto engine = LoadTiny(SmallContext());
  EXPECT_EQ(engine->Run(Greedy({}, 1)).error, "The prompt has no tokens.");
  EXPECT_EQ(engine->Run(Greedy({5, -1}, 1)).error,
            "Token id (-1) is outside the vocabulary (291).");
  EXPECT_EQ(engine->Run(Greedy({291}, 1)).error, "Token id (291) is outside the vocabulary (291).");
  RequestOptions options = Greedy({5}, 1);
  options.sampling.top_p = -1.0f;
  EXPECT_EQ(engine->Run(options).error_code, ErrorCode::kInvalidArgument);
  options = Greedy({5}, 1);
  options.stop = {""};
  EXPECT_EQ(engine->Run(options).error_code, ErrorCode::kInvalidArgument);
  options = Greedy({5}, 1);
  options.biases = {{400, 1.0f}};
  EXPECT_EQ(engine->Run(options).error_code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(engine->Run(Greedy(Prompt(3), 2)).tokens.size(), 2u);
}

// mistral's vocabulary adds a space prefix: a reply that goes on with a new word keeps its space.
TEST(Scheduler, AReplyKeepsTheSpaceOfItsFirstWord) {
  auto engine = TestEngine::Load({TestDataPath("tiny/mistral.gguf")}, SmallContext());
  ASSERT_TRUE(engine.ok());
  const Tokenizer& tokenizer = *(*engine)->engine().tokenizer();
  ASSERT_TRUE(tokenizer.adds_space_prefix());
  TokenId word = kNoToken;
  for (TokenId id = 0; id < 291 && word == kNoToken; ++id) {
    std::string piece;
    tokenizer.AppendPiece(id, false, &piece);
    if (piece.size() > 1 && piece[0] == ' ') word = id;
  }
  ASSERT_NE(word, kNoToken);
  RequestOptions options = Greedy(Prompt(3), 1);
  options.forced = {word};
  std::string piece;
  tokenizer.AppendPiece(word, false, &piece);
  EXPECT_EQ((*engine)->Run(options).text, piece);
}

TEST(Scheduler, ALogitBiasForbidsAToken) {
  auto engine = LoadTiny(SmallContext());
  const TokenId first = engine->Run(Greedy(Prompt(5), 1)).tokens[0];
  RequestOptions options = Greedy(Prompt(5), 1);
  options.biases = {{first, -std::numeric_limits<float>::infinity()}};
  EXPECT_NE(engine->Run(options).tokens[0], first);
}

TEST(Scheduler, AStopStringEndsTheReplyAndIsNotShown) {
  auto engine = LoadTiny(SmallContext());
  const std::string whole = engine->Run(Greedy(Prompt(5), 12)).text;
  ASSERT_GT(whole.size(), 4u) << "the tiny model says too little for this test";
  RequestOptions options = Greedy(Prompt(5), 12);
  size_t at = whole.size() / 2;
  while ((static_cast<unsigned char>(whole[at]) & 0xc0) == 0x80) ++at;
  size_t end = at + 1;
  while (end < whole.size() && (static_cast<unsigned char>(whole[end]) & 0xc0) == 0x80) ++end;
  options.stop = {whole.substr(at, end - at)};
  const Reply reply = engine->Run(options);
  EXPECT_EQ(reply.reason, FinishReason::kStop);
  EXPECT_EQ(reply.text, whole.substr(0, whole.find(options.stop[0])));
}

TEST(Scheduler, TheSameSeedGivesTheSameTokens) {
  auto engine = LoadTiny(SmallContext());
  RequestOptions options = Greedy(Prompt(5), 20);
  options.sampling = {.temperature = 1.5f, .top_k = 0, .top_p = 1.0f, .min_p = 0.0f, .seed = 7};
  const std::vector<TokenId> tokens = engine->Run(options).tokens;
  EXPECT_EQ(engine->Run(options).tokens, tokens);
  options.sampling.seed = 8;
  EXPECT_NE(engine->Run(options).tokens, tokens);
}

// Batched or alone, early or late: a sequence's tokens do not depend on its neighbours.
TEST(Scheduler, SequencesTogetherGiveWhatTheyGiveAlone) {
  auto alone = LoadTiny(SmallContext(64, 1));
  auto together = LoadTiny(SmallContext(64, 4));
  std::vector<std::vector<TokenId>> want;
  std::vector<uint32_t> ids;
  for (uint32_t i = 0; i < 6; ++i) {
    RequestOptions options = Greedy(Prompt(3 + 5 * i, static_cast<TokenId>(20 + i)), 10 + i);
    want.push_back(alone->Run(options).tokens);
    ids.push_back(*together->engine().Start(options));
  }
  EXPECT_EQ(together->engine().active_count(), 6u);
  while (together->engine().Pump(1e9) != PumpStatus::kIdle) {
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(together->sink().replies[ids[i]].tokens, want[i]) << "sequence " << i;
    EXPECT_EQ(together->sink().replies[ids[i]].reason, FinishReason::kLength);
  }
  EXPECT_EQ(together->engine().active_count(), 0u);
}

// A long prompt does not stop a reply that is under way: runs take turns.
TEST(Scheduler, PrefillAndDecodeTakeTurns) {
  auto engine = LoadTiny(SmallContext(256, 2));
  engine->clock().step_us = 20'001.0;  // each run of a prompt takes a whole turn
  const uint32_t talker = *engine->engine().Start(Greedy(Prompt(3), 100));
  const uint32_t reader = *engine->engine().Start(Greedy(Prompt(160), 1));
  while (engine->engine().Pump(1e9) != PumpStatus::kIdle) {
  }
  // 160 tokens are 20 chunks of 8, or more, since the CPU takes fewer rows where time is short: as
  // many tokens of the talker come before the reader's first.
  const std::vector<uint32_t>& order = engine->sink().order;
  const auto first_of_reader = std::find(order.begin(), order.end(), reader) - order.begin();
  EXPECT_GE(first_of_reader, 18);
  EXPECT_LE(first_of_reader, 80);
  EXPECT_EQ(engine->sink().replies[talker].tokens.size(), 100u);
}

TEST(Scheduler, PromptsThatTakeLittleTimeGoFirst) {
  auto engine = LoadTiny(SmallContext(256, 2));
  const uint32_t talker = *engine->engine().Start(Greedy(Prompt(3), 30));
  const uint32_t reader = *engine->engine().Start(Greedy(Prompt(12), 30));  // two chunks
  engine->clock().step_us = 0.0;
  while (engine->engine().Pump(1e9) != PumpStatus::kIdle) {
  }
  const std::vector<uint32_t>& order = engine->sink().order;
  ASSERT_EQ(order.size(), 60u);
  EXPECT_EQ(order[0], talker);
  EXPECT_EQ(order[1], reader);
}

TEST(Scheduler, CancelEndsARequestWhereverItIs) {
  auto engine = LoadTiny(SmallContext(256, 2));
  Engine& e = engine->engine();
  const uint32_t queued_late = [&] {
    EXPECT_TRUE(e.Start(Greedy(Prompt(100), 50)).ok());
    EXPECT_TRUE(e.Start(Greedy(Prompt(4), 50)).ok());
    return *e.Start(Greedy(Prompt(5), 50));
  }();
  EXPECT_NE(e.Pump(0.0), PumpStatus::kIdle);  // one step: in the middle of the first run
  e.Cancel(1);
  e.Cancel(queued_late);
  EXPECT_NE(e.Pump(0.0), PumpStatus::kIdle);
  EXPECT_EQ(engine->sink().replies[1].reason, FinishReason::kAbort);
  EXPECT_TRUE(engine->sink().replies[1].is_finished);
  EXPECT_TRUE(engine->sink().replies[queued_late].is_finished);
  while (e.Pump(1e9) != PumpStatus::kIdle) {
  }
  EXPECT_EQ(engine->sink().replies[2].tokens.size(), 50u);
  e.Cancel(2);      // has ended
  e.Cancel(12345);  // never was
  EXPECT_EQ(e.Pump(1e9), PumpStatus::kIdle);
  EXPECT_EQ(engine->Run(Greedy(Prompt(5), 3)).tokens.size(), 3u);
}

TEST(Scheduler, RefusesMoreThanTheQueueHolds) {
  auto engine = LoadTiny(SmallContext());
  for (int i = 0; i < 256; ++i) ASSERT_TRUE(engine->engine().Start(Greedy({5}, 1)).ok());
  EXPECT_EQ(engine->engine().Start(Greedy({5}, 1)).error().code, ErrorCode::kBusy);
}

TEST(Scheduler, ScoringFollowsTheForcedTokens) {
  auto engine = LoadTiny(SmallContext());
  RequestOptions options = Greedy({5, 6}, 0);
  options.forced = {7, 8, 9};
  options.top_logprobs = 3;
  const Reply reply = engine->Run(options);
  EXPECT_EQ(reply.tokens, options.forced);
  ASSERT_EQ(reply.top.size(), 3u);
  EXPECT_EQ(reply.top[0].size(), 3u);
  EXPECT_GE(reply.top[0][0].logprob, reply.top[0][1].logprob);
}

}  // namespace
}  // namespace nonstop
