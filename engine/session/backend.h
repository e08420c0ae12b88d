// A model ready to run, as the scheduler sees it: it is given batches and worked in slices of time;
// and what makes one of a model's weights and plans.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/model.h"
#include "model/weight_sink.h"
#include "plan/batch.h"
#include "plan/plan.h"
#include "port/clock.h"
#include "session/sampler.h"

namespace nonstop {

struct BackendStats {
  uint64_t weight_bytes = 0;
  uint64_t kv_bytes = 0;
  uint64_t activation_bytes = 0;
  uint64_t gpu_bytes = 0;
  uint32_t dispatches_per_token = 0;
  uint32_t barriers_per_token = 0;
  uint32_t thread_count = 1;
  bool is_resident = false;  // replies are decoded by the resident plan
};

enum class WorkStatus : uint8_t { kDone, kMoreWork, kWaitGpu };

// How a reply goes on: all that its next token depends on, beside the logits.
struct ReplyState {
  const SamplingOptions* sampling;
  std::span<const LogitBias> biases;
  std::span<const TokenId> history;  // prompt and generated
  uint32_t token_index;              // of the next token, 0 for the first generated one
  uint32_t remaining_count;          // tokens that the reply may have yet
  bool ignores_end;
};

// A decode run of replies whose tokens the backend chooses itself, so that it can go on to the next
// token before the host has seen this one.
class ReplyRun {
 public:
  virtual ~ReplyRun() = default;

  virtual bool CanChoose(const ReplyState& reply) const = 0;
  // Begins with one token of each of the batch's rows, all of which are output rows. Instead of
  // Backend::Begin.
  virtual Status BeginReplies(const Batch& batch, std::span<const ReplyState> replies) = 0;
  // Steps that should be under way, so that the GPU never waits for the host.
  virtual uint32_t wanted_step_count() const = 0;
  // One more token of each row. The page tables hold it too.
  virtual Status QueueStep(std::span<const std::span<const uint32_t>> page_tables) = 0;
  // Of the step that Work has just completed, for each row: its token, kNoToken where the host must
  // choose. A row whose reply has ended (an end token, none remaining) has no meaning from then on.
  virtual std::span<const TokenId> Chosen() const = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual uint32_t prefill_row_count() const = 0;  // most rows of one prefill run
  virtual uint32_t decode_row_count() const = 0;   // most sequences of one decode run
  // Most sequences of one prefill run.
  virtual uint32_t prefill_sequence_count() const { return 1; }
  // Makes the pages' memory exist. Before Begin, for every page that the batch touches.
  virtual Status PreparePages(std::span<const uint32_t> pages) = 0;
  // Whether runs may begin, or why they never will. False: the GPU is still compiling; to
  // be asked again when it has reported.
  virtual Result<bool> IsReady(const Clock&) { return true; }
  // Starts a run. The batch's spans stay valid until Work has returned kDone or an error.
  virtual void Begin(Phase phase, const Batch& batch) = 0;
  // Goes on with the run until it is complete, the clock has passed `deadline_us`, or a GPU is to
  // be waited for. After an error the run is over; the next one may work.
  virtual Result<WorkStatus> Work(const Clock& clock, double deadline_us) = 0;
  // Of the run just completed: the logits of an output row.
  virtual std::span<const float> Logits(uint32_t output_row) const = 0;
  virtual BackendStats stats() const = 0;
  // Null: tokens are chosen by the host, from the logits.
  virtual ReplyRun* reply_run() { return nullptr; }
};

// Whether a backend decodes with the resident plan, if it has one: where it serves; never; wherever
// it runs; with one workgroup, which runs on any device.
enum class ResidentUse : uint8_t { kAuto, kNever, kAlways, kAlone };

struct BackendOptions {
  uint32_t context_length = 0;  // of one sequence
  uint32_t max_sequence_count = 1;
  bool kv_is_f32 = false;
  std::vector<TokenId> end_tokens;
  ResidentUse resident = ResidentUse::kAuto;
};

// Of one kind of backend: where its weights go, and then the backend over them.
class BackendFactory {
 public:
  virtual ~BackendFactory() = default;
  virtual std::string_view name() const = 0;  // as engine.info says it
  virtual uint32_t default_prefill_chunk() const = 0;
  // Most sequences whose prompts a run should take in together.
  virtual uint32_t wanted_prompt_count() const { return 1; }
  virtual WeightSink& weights() = 0;
  // All weights are there. The plans and the spec must outlive the backend, and it the factory.
  virtual Result<std::unique_ptr<Backend>> Create(const Plan& prefill, const Plan& decode,
                                                  const ModelSpec& spec,
                                                  const BackendOptions& options) = 0;
};

}  // namespace nonstop
