// Many requests on one model: which tokens the next run of the backend computes, and what becomes
// of its logits. Runs are either one chunk of one prompt or one token of every reply under way;
// they take turns, so that a long prompt does not stop the replies. First come, first served.
// A backend that chooses tokens itself goes on with the replies, step by step and several steps
// ahead, until one of them ends or something else is to be done.
#pragma once

#include <memory>
#include <vector>

#include "port/clock.h"
#include "session/backend.h"
#include "session/request.h"

namespace nonstop {

struct SchedulerOptions {
  uint32_t context_length = 0;   // of one sequence
  uint32_t vocabulary_size = 0;  // of the logits
  uint32_t max_sequence_count = 1;
  uint32_t max_queued_count = 256;
};

enum class PumpStatus : uint8_t { kIdle, kMoreWork, kWaitGpu };

class Scheduler {
 public:
  Scheduler(Backend* backend, const Tokenizer* tokenizer, RequestSink* sink, const Clock* clock,
            const SchedulerOptions& options);

  // The request's id (> 0). Its results come by later pumps.
  Result<uint32_t> Start(RequestOptions options);
  // Its finish (kAbort) comes with the next pump. An unknown or ended id is no error.
  void Cancel(uint32_t request_id);
  // Works until the deadline, or until nothing is left to do.
  PumpStatus Pump(double deadline_us);

  uint32_t active_count() const { return static_cast<uint32_t>(requests_.size()); }

 private:
  using State = Request::State;

  Status Check(const RequestOptions& options) const;
  void EndCancelled();
  void RemoveDone();
  void Admit();

  bool StartRun();
  bool HasPrefill() const;
  void StartPrefill();
  void AddPrompt(Request* request);
  bool StartDecode();
  bool CanChoose() const;
  ReplyState ReplyOf(const Request& request) const;
  uint32_t RemainingCount(const Request& request) const;
  void BeginReplies();
  bool GoesOn();
  bool ReserveStep();
  Status QueueSteps();
  void TakeStep();
  bool AddRow(Request* request, uint32_t token_index);
  void BeginRun(Phase phase);

  void CompleteRun();
  void AfterPrefill();
  void TakeLogits(Request* request, std::span<const float> logits);
  Result<TokenId> Choose(Request* request, std::span<const float> logits);
  void AfterToken(Request* request, TokenId token, std::span<const TokenProbability> top);
  void Finish(Request* request, FinishReason reason);
  void Fail(Request* request, const Error& error);
  void FailRun(const Error& error);
  void FailAll(const Error& error);

  Backend& backend_;
  const Tokenizer& tokenizer_;
  RequestSink& sink_;
  const Clock& clock_;
  SchedulerOptions options_;
  PagePool pool_;
  uint32_t next_id_ = 1;
  std::vector<std::unique_ptr<Request>> requests_;  // in order of arrival

  // The run under way.
  bool is_running_ = false;
  bool was_prefill_ = false;
  double turn_begin_us_ = 0.0;  // of the runs of prompts that replies wait for
  // In the order of their rows; null once one has left a run of replies.
  std::vector<Request*> run_requests_;
  std::vector<BatchRow> rows_;
  std::vector<uint32_t> output_rows_;
  std::vector<std::span<const uint32_t>> page_tables_;
  // Of a run of replies that the backend goes on with.
  bool is_reply_run_ = false;
  uint32_t queued_count_ = 0;  // steps
  uint32_t taken_count_ = 0;
  uint32_t most_steps_ = 0;
};

}  // namespace nonstop
