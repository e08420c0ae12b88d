#include "session/scheduler.h"

#include <algorithm>

#include "base/bytes.h"
#include "cpu/ops.h"

namespace nonstop {
namespace {

// Replies wait no longer than this, and one run, for prompts that have come since.
constexpr double kPromptTurnUs = 20'000.0;

}  // namespace

Scheduler::Scheduler(Backend* backend, const Tokenizer* tokenizer, RequestSink* sink,
                     const Clock* clock, const SchedulerOptions& options)
    : backend_(*backend),
      tokenizer_(*tokenizer),
      sink_(*sink),
      clock_(*clock),
      options_(options),
      pool_(options.max_sequence_count *
            DivideRoundUp(options.context_length, cpu::kKvPageTokenCount)) {}

Status Scheduler::Check(const RequestOptions& options) const {
  if (options.prompt.empty()) {
    return MakeError(ErrorCode::kInvalidArgument, "The prompt has no tokens.");
  }
  if (options.prompt.size() + options.forced.size() > options_.context_length ||
      options.prompt.size() >= options_.context_length) {
    return MakeError(ErrorCode::kContextOverflow,
                     "The prompt has (%zu) tokens, the context holds (%u) with the reply.",
                     options.prompt.size() + options.forced.size(), options_.context_length);
  }
  for (const std::vector<TokenId>* ids : {&options.prompt, &options.forced}) {
    for (TokenId id : *ids) {
      if (id >= 0 && static_cast<uint32_t>(id) < options_.vocabulary_size) continue;
      return MakeError(ErrorCode::kInvalidArgument, "Token id (%d) is outside the vocabulary (%u).",
                       id, options_.vocabulary_size);
    }
  }
  TRY(CheckSamplingOptions(options.sampling));
  return CheckLogitBiases(options.biases, options_.vocabulary_size);
}

Result<uint32_t> Scheduler::Start(RequestOptions options) {
  TRY(Check(options));
  if (requests_.size() >= options_.max_queued_count) {
    return MakeError(ErrorCode::kBusy, "Already (%zu) requests are waiting.", requests_.size());
  }
  ASSIGN_OR_RETURN(StopStrings stop, StopStrings::Create(options.stop));
  const uint32_t id = next_id_++;
  requests_.push_back(
      std::make_unique<Request>(id, std::move(options), tokenizer_, std::move(stop), &pool_));
  requests_.back()->start_us = clock_.NowUs();
  return id;
}

void Scheduler::Cancel(uint32_t request_id) {
  for (const auto& request : requests_) {
    if (request->id == request_id) request->is_cancelled = true;
  }
}

PumpStatus Scheduler::Pump(double deadline_us) {
  const Result<bool> is_ready = backend_.IsReady(clock_);
  if (!is_ready.ok()) FailAll(is_ready.error());
  if (is_ready.ok() && !*is_ready) return PumpStatus::kWaitGpu;
  do {
    EndCancelled();
    if (!is_running_ && !StartRun()) return PumpStatus::kIdle;
    const Status queued = is_reply_run_ ? QueueSteps() : Status();
    if (!is_running_) continue;
    const Result<WorkStatus> status =
        queued.ok() ? backend_.Work(clock_, deadline_us) : Result<WorkStatus>(queued.error());
    if (!status.ok()) {
      FailRun(status.error());
    } else if (*status == WorkStatus::kDone) {
      CompleteRun();
    } else {
      return *status == WorkStatus::kWaitGpu ? PumpStatus::kWaitGpu : PumpStatus::kMoreWork;
    }
    RemoveDone();
  } while (clock_.NowUs() < deadline_us);
  return requests_.empty() ? PumpStatus::kIdle : PumpStatus::kMoreWork;
}

// A run whose requests are all cancelled is dropped: what it wrote is past every kept token.
void Scheduler::EndCancelled() {
  const auto is_cancelled = [](const Request* request) {
    return request == nullptr || request->is_cancelled;
  };
  if (is_running_ && std::all_of(run_requests_.begin(), run_requests_.end(), is_cancelled)) {
    is_running_ = false;
  }
  for (const auto& request : requests_) {
    const bool is_in_run = is_running_ && std::find(run_requests_.begin(), run_requests_.end(),
                                                    request.get()) != run_requests_.end();
    if (request->is_cancelled && !is_in_run) Finish(request.get(), FinishReason::kAbort);
  }
  RemoveDone();
}

void Scheduler::RemoveDone() {
  std::erase_if(requests_, [](const auto& request) { return request->state == State::kDone; });
}

void Scheduler::Admit() {
  uint32_t running_count = 0;
  for (const auto& request : requests_) {
    if (request->state == State::kQueued) {
      if (running_count >= options_.max_sequence_count) return;
      request->state = State::kPrefill;
    }
    ++running_count;
  }
}

bool Scheduler::StartRun() {
  Admit();
  if (HasPrefill()) {
    // In turns, so that neither prompts nor replies wait for all of the others. But prompts that
    // take little time go first: replies are then faster together.
    const bool may_go_on = !was_prefill_ || clock_.NowUs() - turn_begin_us_ < kPromptTurnUs;
    if (may_go_on || !StartDecode()) StartPrefill();
  } else {
    StartDecode();
  }
  RemoveDone();  // what could not be started has failed
  if (!is_running_ && !requests_.empty()) return StartRun();
  return is_running_;
}

bool Scheduler::HasPrefill() const {
  return std::any_of(requests_.begin(), requests_.end(),
                     [](const auto& request) { return request->state == State::kPrefill; });
}

// Adds one token of a request to the run; its page must exist. False: the request has failed.
bool Scheduler::AddRow(Request* request, uint32_t token_index) {
  Status status = request->pages.Reserve(token_index + 1);
  if (status.ok()) {
    status = backend_.PreparePages(
        request->pages.pages().subspan(token_index / cpu::kKvPageTokenCount, 1));
  }
  if (!status.ok()) {
    Fail(request, status.error());
    return false;
  }
  if (run_requests_.empty() || run_requests_.back() != request) run_requests_.push_back(request);
  rows_.push_back({.id = request->tokens[token_index],
                   .position = token_index,
                   .sequence = static_cast<uint32_t>(run_requests_.size() - 1)});
  return true;
}

// As much of the prompts as a run takes, in the order of arrival.
void Scheduler::StartPrefill() {
  const bool has_replies = std::any_of(requests_.begin(), requests_.end(), [](const auto& request) {
    return request->state == State::kDecode;
  });
  if (!was_prefill_ || !has_replies) turn_begin_us_ = clock_.NowUs();
  rows_.clear();
  output_rows_.clear();
  run_requests_.clear();
  for (const auto& request : requests_) {
    if (request->state == State::kPrefill) AddPrompt(request.get());
  }
  if (!rows_.empty()) BeginRun(Phase::kPrefill);
}

void Scheduler::AddPrompt(Request* request) {
  const auto row_count = static_cast<uint32_t>(rows_.size());
  const uint32_t room = backend_.prefill_row_count() - row_count;
  if (room == 0 || run_requests_.size() >= backend_.prefill_sequence_count()) return;
  const uint32_t end = std::min(request->cached_count + room, request->prompt_count());
  request->run_end = end;
  for (uint32_t i = request->cached_count; i < end; ++i) {
    if (AddRow(request, i)) continue;
    rows_.resize(row_count);
    std::erase(run_requests_, request);
    return;
  }
  if (end == request->prompt_count()) {
    output_rows_.push_back(static_cast<uint32_t>(rows_.size() - 1));
  }
}

bool Scheduler::StartDecode() {
  rows_.clear();
  output_rows_.clear();
  run_requests_.clear();
  for (const auto& request : requests_) {
    if (request->state != State::kDecode || rows_.size() >= backend_.decode_row_count()) continue;
    if (AddRow(request.get(), request->cached_count)) {
      output_rows_.push_back(static_cast<uint32_t>(rows_.size() - 1));
    }
  }
  if (rows_.empty()) return false;
  if (CanChoose()) {
    BeginReplies();
  } else {
    BeginRun(Phase::kDecode);
  }
  return true;
}

ReplyState Scheduler::ReplyOf(const Request& request) const {
  return {.sampling = &request.options.sampling,
          .biases = request.options.biases,
          .history = request.tokens,
          .token_index = request.generated_count(),
          .remaining_count = RemainingCount(request),
          .ignores_end = request.options.ignores_end};
}

uint32_t Scheduler::RemainingCount(const Request& request) const {
  const uint32_t room = options_.context_length - static_cast<uint32_t>(request.tokens.size());
  const uint32_t most = request.options.max_tokens;
  return most == 0 ? room : std::min(room, most - request.generated_count());
}

bool Scheduler::CanChoose() const {
  const ReplyRun* replies = backend_.reply_run();
  if (replies == nullptr) return false;
  return std::all_of(run_requests_.begin(), run_requests_.end(), [&](const Request* request) {
    const RequestOptions& options = request->options;
    return options.forced.empty() && options.top_logprobs == 0 && !request->needs_host_choice &&
           replies->CanChoose(ReplyOf(*request));
  });
}

void Scheduler::BeginReplies() {
  std::vector<ReplyState> replies;
  page_tables_.clear();
  most_steps_ = 0;
  for (const Request* request : run_requests_) {
    replies.push_back(ReplyOf(*request));
    page_tables_.push_back(request->pages.pages());
    most_steps_ = std::max(most_steps_, replies.back().remaining_count);
  }
  was_prefill_ = false;
  is_running_ = is_reply_run_ = true;
  queued_count_ = 1;
  taken_count_ = 0;
  const Status status = backend_.reply_run()->BeginReplies(
      {.rows = rows_, .output_rows = output_rows_, .page_tables = page_tables_}, replies);
  if (!status.ok()) FailRun(status.error());
}

// Whether further steps of the run of replies are wanted: as long as it is the run that would be
// started.
bool Scheduler::GoesOn() {
  if (queued_count_ >= most_steps_ || HasPrefill()) return false;
  return std::all_of(run_requests_.begin(), run_requests_.end(), [](const Request* request) {
    return request != nullptr && !request->is_cancelled;
  });
}

// Makes room for the next step's tokens. False: there is none, which is an error only when the step
// is one that must be done next.
bool Scheduler::ReserveStep() {
  for (size_t i = 0; i < run_requests_.size(); ++i) {
    Request* request = run_requests_[i];
    const uint32_t ahead = queued_count_ - taken_count_;
    if (ahead >= RemainingCount(*request)) continue;  // ends before
    const uint32_t position = request->cached_count + ahead;
    if (!request->pages.Reserve(position + 1).ok()) return false;
    page_tables_[i] = request->pages.pages();
    const uint32_t page = position / cpu::kKvPageTokenCount;
    if (!backend_.PreparePages(page_tables_[i].subspan(page, 1)).ok()) return false;
  }
  return true;
}

Status Scheduler::QueueSteps() {
  ReplyRun& replies = *backend_.reply_run();
  while (queued_count_ - taken_count_ < replies.wanted_step_count() && GoesOn()) {
    if (!ReserveStep()) {
      most_steps_ = queued_count_;
      break;
    }
    TRY(replies.QueueStep(page_tables_));
    ++queued_count_;
  }
  is_running_ = taken_count_ < queued_count_;
  return {};
}

// A reply that has ended, or whose token the host must choose, leaves the run; the others go on
// until the steps under way are taken.
void Scheduler::TakeStep() {
  ++taken_count_;
  const std::span<const TokenId> chosen = backend_.reply_run()->Chosen();
  for (size_t i = 0; i < run_requests_.size(); ++i) {
    Request* request = run_requests_[i];
    if (request == nullptr) continue;
    if (chosen[i] == kNoToken) {
      request->needs_host_choice = true;
    } else {
      request->cached_count += 1;
      AfterToken(request, chosen[i], {});
    }
    if (chosen[i] == kNoToken || request->state == State::kDone) run_requests_[i] = nullptr;
  }
  const auto has_left = [](const Request* request) { return request == nullptr; };
  const bool is_empty = std::all_of(run_requests_.begin(), run_requests_.end(), has_left);
  if (is_empty) is_running_ = false;  // what is under way yet is dropped
}

void Scheduler::BeginRun(Phase phase) {
  page_tables_.clear();
  for (const Request* request : run_requests_) page_tables_.push_back(request->pages.pages());
  was_prefill_ = phase == Phase::kPrefill;
  is_running_ = true;
  is_reply_run_ = false;
  backend_.Begin(phase, {.rows = rows_, .output_rows = output_rows_, .page_tables = page_tables_});
}

void Scheduler::CompleteRun() {
  if (is_reply_run_) return TakeStep();
  is_running_ = false;
  if (was_prefill_) return AfterPrefill();
  for (size_t i = 0; i < run_requests_.size(); ++i) {
    Request* request = run_requests_[i];
    request->cached_count += 1;
    TakeLogits(request, backend_.Logits(static_cast<uint32_t>(i)));
  }
}

void Scheduler::AfterPrefill() {
  uint32_t output_index = 0;
  for (Request* request : run_requests_) {
    request->cached_count = request->run_end;
    sink_.OnPrefillProgress(request->id, request->cached_count, request->prompt_count());
    if (request->cached_count < request->prompt_count()) continue;
    request->state = State::kDecode;
    request->first_logits_us = clock_.NowUs();
    TakeLogits(request, backend_.Logits(output_index++));
  }
}

void Scheduler::TakeLogits(Request* request, std::span<const float> logits) {
  std::vector<TokenProbability> top;
  if (request->options.top_logprobs > 0) {
    auto best = TopLogprobs(logits, request->options.top_logprobs);
    if (!best.ok()) return Fail(request, best.error());
    top = std::move(*best);
  }
  request->needs_host_choice = false;
  const Result<TokenId> token = Choose(request, logits);
  if (!token.ok()) return Fail(request, token.error());
  AfterToken(request, *token, top);
}

Result<TokenId> Scheduler::Choose(Request* request, std::span<const float> logits) {
  const uint32_t index = request->generated_count();
  if (index < request->options.forced.size()) return request->options.forced[index];
  return request->sampler.Sample(logits, request->tokens, index);
}

void Scheduler::AfterToken(Request* request, TokenId token, std::span<const TokenProbability> top) {
  const RequestOptions& options = request->options;
  const bool is_scoring = !options.forced.empty();
  const uint32_t index = request->generated_count();
  const bool is_end = tokenizer_.IsEnd(token);
  const bool ends = is_end && !options.ignores_end && !is_scoring;
  request->tokens.push_back(token);
  request->last_token_us = clock_.NowUs();
  if (index == 0) request->first_token_us = request->last_token_us;

  std::string text;
  if (!ends) {
    std::string piece;
    request->detokenizer.Push(token, &piece);
    request->stop.Push(piece, &text);
  }
  sink_.OnToken({.request_id = request->id,
                 .token = token,
                 .index = index,
                 .is_end = is_end,
                 .top = top,
                 .text = text});
  const uint32_t most =
      is_scoring ? static_cast<uint32_t>(options.forced.size()) : options.max_tokens;
  if (ends || request->stop.stopped()) {
    Finish(request, FinishReason::kStop);
  } else if (request->generated_count() == most ||
             request->tokens.size() >= options_.context_length) {
    Finish(request, FinishReason::kLength);
  }
}

void Scheduler::Finish(Request* request, FinishReason reason) {
  if (request->state == State::kDone) return;
  std::string piece;
  std::string text;
  request->detokenizer.Finish(&piece);
  request->stop.Push(piece, &text);
  request->stop.Finish(&text);
  const bool has_logits = request->generated_count() > 0;
  sink_.OnFinish(
      {.request_id = request->id,
       .reason = reason,
       .prompt_count = request->prompt_count(),
       .cached_count = 0,
       .generated_count = request->generated_count(),
       .text = text,
       .prefill_us = has_logits ? request->first_logits_us - request->start_us : 0.0,
       .first_token_us = has_logits ? request->first_token_us - request->start_us : 0.0,
       .decode_us = has_logits ? request->last_token_us - request->first_token_us : 0.0});
  request->state = State::kDone;
}

void Scheduler::Fail(Request* request, const Error& error) {
  sink_.OnError(request->id, error);
  request->state = State::kDone;
}

void Scheduler::FailRun(const Error& error) {
  is_running_ = false;
  for (Request* request : run_requests_) {
    if (request != nullptr) Fail(request, error);
  }
}

void Scheduler::FailAll(const Error& error) {
  is_running_ = false;
  for (const auto& request : requests_) Fail(request.get(), error);
  RemoveDone();
}

}  // namespace nonstop
