// For tests only: an engine over a file of tests/data, driven as a host would drive it, and a sink
// that keeps what came out.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/test_files.h"
#include "cpu/backend.h"
#include "session/engine.h"

namespace nonstop {

// The time, moved on by what a test adds; or, once `step_us` is set, one that moves by so much each
// time that it is asked.
class SteadyClock final : public Clock {
 public:
  double NowUs() const override {
    if (step_us) return ahead_us_ += *step_us;
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration<double, std::micro>(now).count() + added_us;
  }
  double added_us = 0.0;
  std::optional<double> step_us;

 private:
  mutable double ahead_us_ = 0.0;
};

// A clock that never moves: with budget 0 a pump does one step, with more it does all.
class StoppedClock final : public Clock {
 public:
  double NowUs() const override { return 0.0; }
};

struct Reply {
  std::vector<TokenId> tokens;
  std::vector<std::vector<TokenProbability>> top;  // of each token
  std::string text;
  bool is_finished = false;
  FinishReason reason = FinishReason::kError;
  std::string error;
  ErrorCode error_code = ErrorCode::kInternal;
};

class ReplySink final : public RequestSink {
 public:
  void OnToken(const TokenOutput& output) override {
    Reply& reply = replies[output.request_id];
    reply.tokens.push_back(output.token);
    reply.top.emplace_back(output.top.begin(), output.top.end());
    reply.text += output.text;
    order.push_back(output.request_id);
  }
  void OnFinish(const FinishOutput& output) override {
    Reply& reply = replies[output.request_id];
    reply.is_finished = true;
    reply.reason = output.reason;
    reply.text += output.text;
  }
  void OnError(uint32_t request_id, const Error& error) override {
    Reply& reply = replies[request_id];
    reply.is_finished = true;
    reply.error = error.message;
    reply.error_code = error.code;
  }
  void OnPrefillProgress(uint32_t, uint32_t, uint32_t) override { ++progress_count; }

  std::map<uint32_t, Reply> replies;
  std::vector<uint32_t> order;  // which request each token was of
  uint32_t progress_count = 0;
};

// `kernels`: in place of those that the options choose.
inline std::unique_ptr<BackendFactory> MakeCpuFactory(cpu::Pool* pool, const EngineOptions& options,
                                                      const cpu::KernelSet* kernels = nullptr) {
  return std::make_unique<cpu::CpuBackendFactory>(
      pool, cpu::CpuBackendOptions{.uses_reference = options.uses_reference,
                                   .activation = options.activation,
                                   .thread_count = options.thread_count,
                                   .kernels = kernels});
}

class TestEngine {
 public:
  // Loads the files in pieces of `piece_bytes`. No factory: the CPU's.
  static Result<std::unique_ptr<TestEngine>> Load(
      const std::vector<std::string>& paths, const EngineOptions& options,
      size_t piece_bytes = Loader::kMaxPieceBytes,
      std::unique_ptr<BackendFactory> factory = nullptr) {
    auto test = std::make_unique<TestEngine>();
    if (factory == nullptr) factory = MakeCpuFactory(&test->pool_, options);
    ASSIGN_OR_RETURN(test->engine_,
                     Engine::Create(options, &test->clock_, &test->sink_, std::move(factory)));
    for (size_t i = 0; i < paths.size(); ++i) {
      ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, ReadTestFile(paths[i]));
      TRY(test->PushFile(static_cast<uint32_t>(i), bytes, piece_bytes));
    }
    TRY(test->engine_->FinishLoading());
    return test;
  }

  Status PushFile(uint32_t index, std::span<const std::byte> bytes, size_t piece_bytes) {
    Loader& loader = engine_->loader();
    TRY(loader.BeginFile(index, static_cast<double>(bytes.size())));
    while (!bytes.empty()) {
      const auto want = static_cast<uint32_t>(std::min(bytes.size(), piece_bytes));
      ASSIGN_OR_RETURN(const std::span<std::byte> place, loader.Reserve(want));
      std::copy_n(bytes.begin(), place.size(), place.begin());
      bytes = bytes.subspan(place.size());
      ASSIGN_OR_RETURN(const LoadProgress progress,
                       loader.Commit(static_cast<uint32_t>(place.size())));
      if (progress == LoadProgress::kHeaderComplete && loader.files() != nullptr) {
        TRY(engine_->AfterHeader());
      }
    }
    return loader.EndFile();
  }

  // Runs one request to its end.
  Reply Run(RequestOptions options) {
    Result<uint32_t> id = engine_->Start(std::move(options));
    if (!id.ok()) {
      Reply reply;
      reply.is_finished = true;
      reply.error = id.error().message;
      reply.error_code = id.error().code;
      return reply;
    }
    while (engine_->Pump(1e9) != PumpStatus::kIdle) {
    }
    return sink_.replies[*id];
  }

  Engine& engine() { return *engine_; }
  SteadyClock& clock() { return clock_; }
  ReplySink& sink() { return sink_; }
  cpu::Pool& pool() { return pool_; }

 private:
  SteadyClock clock_;
  ReplySink sink_;
  cpu::Pool pool_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace nonstop
