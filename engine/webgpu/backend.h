// WebGPU behind the scheduler's Backend, by way of the Gpu port: one upload and one submission a
// run; the logits of wanted rows come back. Where the GPU chooses the tokens of replies, only the
// first step has an upload, several are under way at a time, and the tokens come back. Nothing
// waits: Work says when there is nothing to do but that.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "session/backend.h"
#include "webgpu/gpu_model.h"
#include "webgpu/lowering.h"
#include "webgpu/resident_trial.h"
#include "webgpu/submission_pacer.h"

namespace nonstop {

class WebGpuBackend final : public Backend, public ReplyRun {
 public:
  // Plans and weights must outlive the backend.
  static Result<std::unique_ptr<WebGpuBackend>> Create(Gpu* gpu, GpuWeights* weights,
                                                       const Plan& prefill, const Plan& decode,
                                                       const ModelSpec& spec,
                                                       const BackendOptions& options);
  ~WebGpuBackend() override;

  uint32_t prefill_row_count() const override { return prefill_plan_.limits.token_rows; }
  uint32_t prefill_sequence_count() const override { return prefill_plan_.limits.output_rows; }
  uint32_t decode_row_count() const override { return decode_plan_.limits.token_rows; }
  Status PreparePages(std::span<const uint32_t> pages) override;
  Result<bool> IsReady(const Clock& clock) override;
  void Begin(Phase phase, const Batch& batch) override;
  Result<WorkStatus> Work(const Clock& clock, double deadline_us) override;
  std::span<const float> Logits(uint32_t output_row) const override;
  BackendStats stats() const override;

  ReplyRun* reply_run() override { return this; }
  bool CanChoose(const ReplyState& reply) const override;
  Status BeginReplies(const Batch& batch, std::span<const ReplyState> replies) override;
  uint32_t wanted_step_count() const override;
  Status QueueStep(std::span<const std::span<const uint32_t>> page_tables) override;
  std::span<const TokenId> Chosen() const override { return chosen_; }

 private:
  static constexpr uint32_t kMostSteps = 8;  // under way
  static constexpr uint32_t kMostRows = 8;
  // Steps of a run that was dropped may be under way yet.
  static constexpr uint32_t kRingSteps = 2 * kMostSteps;

  // Where a step's records come to.
  struct StepSlot {
    GpuTicket ticket = 0;
    std::array<uint32_t, kMostRows * RecordLayout::kWords> words = {};
  };

  WebGpuBackend(Gpu* gpu, GpuWeights* weights, const Plan& prefill, const Plan& decode)
      : gpu_(*gpu), weights_(*weights), prefill_plan_(prefill), decode_plan_(decode) {}

  Status CreateModel(const ModelSpec& spec, const BackendOptions& options);
  Status CreateResident(const BackendOptions& options, std::vector<uint32_t>* params);
  void DropResident();
  void CountResidentFailure();
  GpuProgram* DecodeProgramFor(uint32_t row_count) const;
  GpuProgram* ResidentProgramFor(uint32_t row_count) const;  // null: the chain's
  Status CreatePrograms(const BackendOptions& options);
  Status CreateParams(const std::vector<uint32_t>& words);
  Status BindCache();
  // In so many submissions, the last of which has the read-back: its ticket.
  Result<GpuTicket> SubmitInPieces(std::span<const GpuDispatch> dispatches, uint32_t piece_count,
                                   const GpuReadback& readback);
  // Of a run that lasts so long. A software adapter has no page to share a GPU with.
  uint32_t PieceCount(double run_us) const;
  Status Submit(double now_us);
  Status SubmitStep();
  Status ExtendPages(std::span<const std::span<const uint32_t>> page_tables);
  WorkStatus TakeStep(double now_us);
  void MeasureStep(double now_us);

  Gpu& gpu_;
  GpuWeights& weights_;
  const Plan& prefill_plan_;
  const Plan& decode_plan_;
  GpuModel model_;
  std::unique_ptr<GpuKvCache> cache_;
  std::unique_ptr<PipelineSet> pipelines_;
  std::unique_ptr<GpuArenas> prefill_arenas_;
  std::unique_ptr<GpuArenas> decode_arenas_;
  std::unique_ptr<GpuProgram> prefill_;
  std::vector<std::unique_ptr<GpuProgram>> decode_;  // by row limit, ascending
  // Likewise, until it turns out not to serve.
  std::vector<std::unique_ptr<GpuProgram>> resident_;
  std::unique_ptr<ResidentTrial> trial_;  // until it is over
  bool is_resident_alone_ = false;        // all decode runs have it
  uint32_t resident_failure_count_ = 0;
  GpuBufferId params_ = kNoBuffer;
  std::vector<TokenId> end_tokens_;
  bool is_ready_ = false;  // what is compiled stays so

  // The run under way.
  GpuProgram* running_ = nullptr;
  bool is_prefill_ = false;
  std::vector<uint32_t> state_words_;
  uint32_t row_count_ = 0;
  uint32_t output_count_ = 0;
  GpuTicket ticket_ = 0;      // 0: not submitted
  GpuTicket last_chunk_ = 0;  // of the runs without logits
  GpuTicket chunk_before_last_ = 0;
  SubmissionPacer prompt_pacer_;
  // Where read-backs land: the logits of the output rows.
  std::vector<float> logits_;
  uint32_t dispatches_per_token_ = 0;  // of the last decode run

  // The run of replies, if the one under way is such.
  bool is_reply_run_ = false;
  std::array<StepSlot, kRingSteps> steps_;
  uint32_t queued_count_ = 0;  // steps of all runs
  uint32_t taken_count_ = 0;
  std::array<uint32_t, kMostRows> next_index_ = {};   // of each row's token to be taken
  std::array<uint32_t, kMostRows> page_counts_ = {};  // in the state
  std::vector<TokenId> chosen_;
  // How long a step of so many rows takes where the next one follows at once; 0: not known yet.
  std::array<double, kMostRows + 1> step_us_ = {};
  double first_taken_us_ = 0.0;  // of this run
  uint32_t run_taken_count_ = 0;
};

class WebGpuBackendFactory final : public BackendFactory {
 public:
  // `gpu` must outlive the factory and what it makes.
  explicit WebGpuBackendFactory(Gpu* gpu) : gpu_(*gpu), weights_(gpu) {}

  std::string_view name() const override { return "webgpu"; }
  uint32_t default_prefill_chunk() const override { return 256; }
  uint32_t wanted_prompt_count() const override { return StateLayout::kMostPrompts; }
  WeightSink& weights() override { return weights_; }
  Result<std::unique_ptr<Backend>> Create(const Plan& prefill, const Plan& decode,
                                          const ModelSpec& spec,
                                          const BackendOptions& options) override;

 private:
  Gpu& gpu_;
  GpuWeights weights_;
};

}  // namespace nonstop
