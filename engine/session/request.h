// A request (one reply, or one scoring) and what comes back from it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "session/page_pool.h"
#include "session/sampler.h"
#include "session/stop_strings.h"
#include "text/tokenizer.h"

namespace nonstop {

struct RequestOptions {
  std::vector<TokenId> prompt;
  std::vector<TokenId> forced;  // scoring: fed instead of sampled tokens
  uint32_t max_tokens = 0;      // 0: until the context is full
  uint32_t top_logprobs = 0;
  bool ignores_end = false;    // end tokens do not end the reply
  bool shows_special = false;  // control tokens appear in the text
  std::vector<std::string> stop;
  std::vector<LogitBias> biases;
  SamplingOptions sampling;
};

enum class FinishReason : uint8_t { kStop, kLength, kAbort, kError };

struct TokenOutput {
  uint32_t request_id;
  TokenId token;
  uint32_t index;  // 0 for the first generated token
  bool is_end;
  std::span<const TokenProbability> top;
  std::string_view text;  // what became final with it
};

struct FinishOutput {
  uint32_t request_id;
  FinishReason reason;
  uint32_t prompt_count;
  uint32_t cached_count;
  uint32_t generated_count;
  std::string_view text;  // held back until now
  double prefill_us;      // from the request's start to its first logits
  double first_token_us;
  double decode_us;  // from the first token to the last
};

// Where results go. Called from within Scheduler::Pump; views live for the call.
class RequestSink {
 public:
  virtual ~RequestSink() = default;
  virtual void OnToken(const TokenOutput& output) = 0;
  virtual void OnFinish(const FinishOutput& output) = 0;
  virtual void OnError(uint32_t request_id, const Error& error) = 0;
  virtual void OnPrefillProgress(uint32_t request_id, uint32_t done_count,
                                 uint32_t total_count) = 0;
};

// What the scheduler keeps of a request.
struct Request {
  enum class State : uint8_t { kQueued, kPrefill, kDecode, kDone };

  Request(uint32_t id, RequestOptions request_options, const Tokenizer& tokenizer,
          StopStrings stop_strings, PagePool* pool)
      : id(id),
        options(std::move(request_options)),
        tokens(options.prompt),
        pages(pool),
        sampler(options.sampling, options.biases),
        detokenizer(tokenizer, options.shows_special, /*starts_text=*/false),
        stop(std::move(stop_strings)) {}

  uint32_t prompt_count() const { return static_cast<uint32_t>(options.prompt.size()); }
  uint32_t generated_count() const { return static_cast<uint32_t>(tokens.size()) - prompt_count(); }

  uint32_t id;
  RequestOptions options;
  State state = State::kQueued;
  bool is_cancelled = false;
  bool needs_host_choice = false;  // the backend could not choose the next token
  std::vector<TokenId> tokens;     // prompt, then generated
  uint32_t cached_count = 0;       // tokens whose K and V are in the cache
  uint32_t run_end = 0;            // tokens that will be, after the prefill under way
  PageTable pages;
  Sampler sampler;
  StreamingDetokenizer detokenizer;
  StopStrings stop;
  double start_us = 0.0;
  double first_logits_us = 0.0;
  double first_token_us = 0.0;
  double last_token_us = 0.0;
};

}  // namespace nonstop
