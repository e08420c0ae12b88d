#include "webgpu/backend.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/check.h"
#include "cpu/ops.h"
#include "webgpu/resident.h"

namespace nonstop {
namespace {

// Decode programs are made for these numbers of rows, up to the plan's.
constexpr uint32_t kDecodeRowLimits[] = {1, 2, 4, 8};
// Work that is under way lasts this long, where that is possible: twice the 3 ms that a browser
// takes to tell that something is done.
constexpr double kAheadUs = 6000.0;
constexpr uint32_t kMostWorkgroupBytes = 32'768;
constexpr uint32_t kFirstStepCount = 4;  // until a step has been measured
constexpr uint32_t kMostResidentFailures = 3;
constexpr uint32_t kLeastSteps = 2;  // one that runs, one that follows it

Error NoResidentPlan() {
  return MakeError(ErrorCode::kBackendFailed,
                   "The resident plan does not serve this model on this GPU.");
}

}  // namespace

Result<std::unique_ptr<WebGpuBackend>> WebGpuBackend::Create(Gpu* gpu, GpuWeights* weights,
                                                             const Plan& prefill,
                                                             const Plan& decode,
                                                             const ModelSpec& spec,
                                                             const BackendOptions& options) {
  auto backend = std::unique_ptr<WebGpuBackend>(new WebGpuBackend(gpu, weights, prefill, decode));
  TRY(backend->CreateModel(spec, options));
  TRY(backend->CreatePrograms(options));
  return backend;
}

WebGpuBackend::~WebGpuBackend() {
  for (GpuBufferId buffer : {model_.state, params_}) {
    if (buffer != kNoBuffer) gpu_.DestroyBuffer(buffer);
  }
}

Status WebGpuBackend::CreateModel(const ModelSpec& spec, const BackendOptions& options) {
  const uint32_t max_pages = DivideRoundUp(options.context_length, cpu::kKvPageTokenCount);
  ASSIGN_OR_RETURN(cache_, GpuKvCache::Create(
                               &gpu_, {.layer_count = spec.layer_count,
                                       .head_dim = spec.head_dim,
                                       .kv_head_count = spec.kv_head_count,
                                       .is_f32 = options.kv_is_f32,
                                       .max_page_count = options.max_sequence_count * max_pages}));
  model_ = {.gpu = &gpu_,
            .weights = &weights_,
            .cache = cache_.get(),
            .layout = {.shape = {.max_rows = std::max(prefill_plan_.limits.token_rows,
                                                      decode_plan_.limits.token_rows),
                                 .max_pages = max_pages},
                       .max_sequence_count = options.max_sequence_count},
            .uses_subgroups = gpu_.adapter().has_subgroups,
            .subgroup_min_size = gpu_.adapter().subgroup_min_size,
            // More would leave a GPU's core with too few workgroups.
            .workgroup_bytes =
                std::min(gpu_.adapter().limits.max_workgroup_storage_bytes, kMostWorkgroupBytes)};
  ASSIGN_OR_RETURN(model_.state, gpu_.CreateBuffer(GpuBufferUsage::kState,
                                                   model_.layout.word_count() * sizeof(uint32_t)));
  end_tokens_ = options.end_tokens;
  TRY(cache_->Reserve(1));
  pipelines_ = std::make_unique<PipelineSet>(&gpu_);
  return {};
}

Status WebGpuBackend::CreatePrograms(const BackendOptions& options) {
  ASSIGN_OR_RETURN(prefill_arenas_, GpuArenas::Create(&gpu_, prefill_plan_));
  ASSIGN_OR_RETURN(decode_arenas_, GpuArenas::Create(&gpu_, decode_plan_));
  std::vector<uint32_t> words;
  ASSIGN_OR_RETURN(prefill_,
                   GpuProgram::Create(model_, prefill_plan_, *prefill_arenas_, Phase::kPrefill,
                                      prefill_plan_.limits.token_rows, pipelines_.get(), &words));
  const uint32_t most = decode_plan_.limits.token_rows;
  for (uint32_t row_limit : kDecodeRowLimits) {
    ASSIGN_OR_RETURN(std::unique_ptr<GpuProgram> program,
                     GpuProgram::Create(model_, decode_plan_, *decode_arenas_, Phase::kDecode,
                                        std::min(row_limit, most), pipelines_.get(), &words));
    decode_.push_back(std::move(program));
    if (row_limit >= most) break;
  }
  TRY(CreateResident(options, &words));
  pipelines_->DropText();
  // Of all rows that any run wants, since read-backs under way, those of dropped runs too, point
  // there.
  const uint32_t most_outputs =
      std::max(prefill_plan_.limits.output_rows, decode_plan_.limits.output_rows);
  logits_.resize(size_t{most_outputs} * decode_plan_.graph.value(decode_plan_.logits.value).width);
  return CreateParams(words);
}

Status WebGpuBackend::CreateResident(const BackendOptions& options, std::vector<uint32_t>* params) {
  if (options.resident == ResidentUse::kNever) return {};
  // A software adapter runs a few workgroups at a time.
  const bool is_auto = options.resident == ResidentUse::kAuto;
  if (is_auto && gpu_.adapter().is_fallback) return {};
  is_resident_alone_ = options.resident == ResidentUse::kAlone;
  for (const auto& chain : decode_) {
    ASSIGN_OR_RETURN(std::unique_ptr<GpuProgram> program,
                     GpuProgram::CreateResident(model_, decode_plan_, decode_arenas_.get(),
                                                chain->row_limit(), pipelines_.get(), params));
    if (program == nullptr) return is_auto ? Status() : NoResidentPlan();
    if (is_resident_alone_) program->SetResidentWorkgroups(1, kMostResidentRows);
    resident_.push_back(std::move(program));
  }
  if (!is_resident_alone_) {
    trial_ = std::make_unique<ResidentTrial>(model_, decode_plan_, *decode_arenas_, is_auto);
  }
  return {};
}

void WebGpuBackend::DropResident() {
  trial_.reset();
  resident_.clear();
  decode_arenas_->DropRelay();
}

// The parameters of all programs, written once.
Status WebGpuBackend::CreateParams(const std::vector<uint32_t>& words) {
  ASSIGN_OR_RETURN(params_,
                   gpu_.CreateBuffer(GpuBufferUsage::kParams, words.size() * sizeof(uint32_t)));
  TRY(gpu_.Upload(params_, 0, std::as_bytes(std::span(words))));
  TRY(prefill_->Bind(params_));
  for (const auto& program : decode_) TRY(program->Bind(params_));
  for (const auto& program : resident_) TRY(program->Bind(params_));
  return BindCache();
}

Status WebGpuBackend::BindCache() {
  TRY(prefill_->BindCache(params_));
  for (const auto& program : decode_) TRY(program->BindCache(params_));
  for (const auto& program : resident_) TRY(program->BindCache(params_));
  return {};
}

Status WebGpuBackend::PreparePages(std::span<const uint32_t> pages) {
  uint32_t page_count = 0;
  for (uint32_t page : pages) page_count = std::max(page_count, page + 1);
  ASSIGN_OR_RETURN(const bool has_moved, cache_->Reserve(page_count));
  return has_moved ? BindCache() : Status();
}

Result<bool> WebGpuBackend::IsReady(const Clock& clock) {
  if (is_ready_) return true;
  TRY(gpu_.status());
  ASSIGN_OR_RETURN(const bool are_packed, weights_.PackPending());
  ASSIGN_OR_RETURN(const bool are_ready, pipelines_->AreReady());
  if (!are_packed || !are_ready ||
      gpu_.pipeline_state(cache_->copy_pipeline()) != GpuPipelineState::kReady) {
    return false;
  }
  while (!resident_.empty() && !resident_.back()->HasPipelines()) resident_.pop_back();
  if (resident_.empty()) DropResident();
  if (trial_) {
    ASSIGN_OR_RETURN(const bool is_over, trial_->Advance(clock, decode_, resident_));
    if (!is_over) return false;
    const size_t serving_count = trial_->serving_count();
    if (serving_count == 0) {
      if (!trial_->is_timed()) return NoResidentPlan();  // and so it stays
      DropResident();
    }
    resident_.resize(serving_count);
    trial_.reset();
  }
  is_ready_ = true;
  return true;
}

// The first that is made for so many rows; null: none is.
static GpuProgram* ProgramFor(std::span<const std::unique_ptr<GpuProgram>> programs,
                              uint32_t row_count) {
  const auto fits = [&](const auto& program) { return program->row_limit() >= row_count; };
  const auto found = std::find_if(programs.begin(), programs.end(), fits);
  return found == programs.end() ? nullptr : found->get();
}

GpuProgram* WebGpuBackend::DecodeProgramFor(uint32_t row_count) const {
  GpuProgram* program = ProgramFor(decode_, row_count);
  CHECK(program != nullptr);
  return program;
}

GpuProgram* WebGpuBackend::ResidentProgramFor(uint32_t row_count) const {
  return ProgramFor(resident_, row_count);
}

void WebGpuBackend::Begin(Phase phase, const Batch& batch) {
  const auto row_count = static_cast<uint32_t>(batch.rows.size());
  is_prefill_ = phase == Phase::kPrefill;
  running_ = prefill_.get();
  if (!is_prefill_) {
    running_ = is_resident_alone_ ? ResidentProgramFor(row_count) : nullptr;
    if (running_ == nullptr) running_ = DecodeProgramFor(row_count);
    // attention_decode.wgsl and resident.wgsl rely on it.
    for (uint32_t i = 0; i < row_count; ++i) CHECK(batch.rows[i].sequence == i);
  }
  row_count_ = row_count;
  output_count_ = static_cast<uint32_t>(batch.output_rows.size());
  state_words_ = EncodeState(model_.layout, batch);
  ticket_ = 0;
  is_reply_run_ = false;
}

uint32_t WebGpuBackend::PieceCount(double run_us) const {
  return gpu_.adapter().is_fallback ? 1 : SubmissionPacer::PieceCount(run_us);
}

// The same kernels: a page that draws gets its turn in between.
Result<GpuTicket> WebGpuBackend::SubmitInPieces(std::span<const GpuDispatch> dispatches,
                                                uint32_t piece_count, const GpuReadback& readback) {
  const size_t piece_size = DivideRoundUp<size_t>(dispatches.size(), piece_count);
  while (dispatches.size() > piece_size) {
    TRY(gpu_.Submit(dispatches.first(piece_size), {}));
    dispatches = dispatches.subspan(piece_size);
  }
  return gpu_.Submit(dispatches, {&readback, 1});
}

Status WebGpuBackend::Submit(double now_us) {
  const Plan& plan = is_prefill_ ? prefill_plan_ : decode_plan_;
  const GpuArenas& arenas = is_prefill_ ? *prefill_arenas_ : *decode_arenas_;
  const std::span<const GpuDispatch> dispatches =
      running_->Dispatches(row_count_, output_count_, /*chooses=*/false);
  // A run without logits reads a word back, so that its end is seen.
  const size_t logit_count =
      std::max<size_t>(size_t{output_count_} * plan.graph.value(plan.logits.value).width, 1);
  CHECK(logit_count <= logits_.size());
  const bool has_logits = output_count_ > 0;
  const GpuReadback readback = {
      .buffer = has_logits ? arenas.arena(plan.logits.arena) : model_.state,
      .size_bytes = static_cast<uint32_t>(logit_count * sizeof(float)),
      .offset_bytes = has_logits ? plan.logits.offset_bytes : 0,
      .destination = reinterpret_cast<std::byte*>(logits_.data())};
  TRY(gpu_.Upload(model_.state, 0, std::as_bytes(std::span(state_words_))));
  const uint32_t pieces = is_prefill_ ? PieceCount(prompt_pacer_.RunUs(row_count_)) : 1;
  ASSIGN_OR_RETURN(ticket_, SubmitInPieces(dispatches, pieces, readback));
  if (is_prefill_) prompt_pacer_.Submitted(ticket_, row_count_, now_us);
  if (!is_prefill_) dispatches_per_token_ = static_cast<uint32_t>(dispatches.size());
  return {};
}

Result<WorkStatus> WebGpuBackend::Work(const Clock& clock, double) {
  TRY(gpu_.status());
  if (is_reply_run_) return TakeStep(clock.NowUs());
  prompt_pacer_.Ended(gpu_.last_done(), clock.NowUs());
  if (ticket_ == 0) {
    // The queue keeps the order; but a prompt must not be far ahead of what can be cancelled: one
    // chunk waits behind the one that is computed.
    if (gpu_.last_done() < chunk_before_last_) return WorkStatus::kWaitGpu;
    TRY(Submit(clock.NowUs()));
    if (output_count_ == 0) {
      chunk_before_last_ = last_chunk_;
      last_chunk_ = ticket_;
      return WorkStatus::kDone;
    }
  }
  prompt_pacer_.Ended(gpu_.last_done(), clock.NowUs());
  return gpu_.last_done() >= ticket_ ? WorkStatus::kDone : WorkStatus::kWaitGpu;
}

bool WebGpuBackend::CanChoose(const ReplyState& reply) const {
  return CanChooseOnGpu(reply, end_tokens_);
}

Status WebGpuBackend::BeginReplies(const Batch& batch, std::span<const ReplyState> replies) {
  CHECK(batch.rows.size() <= kMostRows && batch.output_rows.size() == batch.rows.size());
  Begin(Phase::kDecode, batch);
  EncodeReplies(model_.layout, replies, end_tokens_, &state_words_);
  is_reply_run_ = true;
  if (GpuProgram* resident = ResidentProgramFor(row_count_)) running_ = resident;
  taken_count_ = queued_count_;  // what is under way yet is dropped
  run_taken_count_ = 0;
  chosen_.assign(row_count_, kNoToken);
  for (uint32_t i = 0; i < row_count_; ++i) {
    next_index_[i] = replies[i].token_index;
    page_counts_[i] = static_cast<uint32_t>(batch.page_tables[i].size());
  }
  TRY(gpu_.Upload(model_.state, 0, std::as_bytes(std::span(state_words_))));
  return SubmitStep();
}

uint32_t WebGpuBackend::wanted_step_count() const {
  const double step_us = step_us_[row_count_];
  if (step_us == 0.0) return kFirstStepCount;
  const double count = std::min<double>(kAheadUs / step_us + 1.0, kMostSteps);
  return std::max(static_cast<uint32_t>(count), kLeastSteps);
}

Status WebGpuBackend::QueueStep(std::span<const std::span<const uint32_t>> page_tables) {
  TRY(gpu_.status());
  TRY(ExtendPages(page_tables));
  return SubmitStep();
}

// Pages that came since the state was written. No step under way reads their entries.
Status WebGpuBackend::ExtendPages(std::span<const std::span<const uint32_t>> page_tables) {
  for (uint32_t i = 0; i < page_tables.size(); ++i) {
    const std::span<const uint32_t> added = page_tables[i].subspan(page_counts_[i]);
    if (added.empty()) continue;
    const uint64_t at =
        model_.layout.page_tables() + i * model_.layout.shape.max_pages + page_counts_[i];
    TRY(gpu_.Upload(model_.state, at * sizeof(uint32_t), std::as_bytes(added)));
    page_counts_[i] = static_cast<uint32_t>(page_tables[i].size());
  }
  return {};
}

Status WebGpuBackend::SubmitStep() {
  StepSlot& slot = steps_[queued_count_ % kRingSteps];
  if (gpu_.last_done() < slot.ticket) {
    return MakeError(ErrorCode::kInternal, "More than (%u) steps are under way.", kRingSteps);
  }
  const std::span<const GpuDispatch> dispatches =
      running_->Dispatches(row_count_, row_count_, /*chooses=*/true);
  const GpuReadback readback = {
      .buffer = model_.state,
      .size_bytes = row_count_ * RecordLayout::kWords * uint32_t{sizeof(uint32_t)},
      .offset_bytes = uint64_t{model_.layout.records()} * sizeof(uint32_t),
      .destination = reinterpret_cast<std::byte*>(slot.words.data())};
  ASSIGN_OR_RETURN(slot.ticket,
                   SubmitInPieces(dispatches, PieceCount(step_us_[row_count_]), readback));
  dispatches_per_token_ = static_cast<uint32_t>(dispatches.size());
  ++queued_count_;
  return {};
}

// A step that found the run stopped has left the records as they were: their index tells.
WorkStatus WebGpuBackend::TakeStep(double now_us) {
  const StepSlot& slot = steps_[taken_count_ % kRingSteps];
  if (taken_count_ == queued_count_ || gpu_.last_done() < slot.ticket) return WorkStatus::kWaitGpu;
  const uint32_t vocabulary_size = decode_plan_.graph.value(decode_plan_.logits.value).width;
  bool needs_host = false;
  for (uint32_t i = 0; i < row_count_; ++i) {
    const uint32_t* record = &slot.words[i * RecordLayout::kWords];
    needs_host |= record[RecordLayout::kNeedsHost] != 0;
    const bool is_chosen = record[RecordLayout::kNeedsHost] == 0 &&
                           record[RecordLayout::kIndex] == next_index_[i] &&
                           record[RecordLayout::kToken] < vocabulary_size;
    chosen_[i] = is_chosen ? static_cast<TokenId>(record[RecordLayout::kToken]) : kNoToken;
    ++next_index_[i];
  }
  if (needs_host && running_ == ResidentProgramFor(row_count_)) CountResidentFailure();
  ++taken_count_;
  MeasureStep(now_us);
  return WorkStatus::kDone;
}

// The host chooses by the chain's logits what was not chosen here, for whatever reason. That may be
// once in a while because of the logits themselves; if not, the resident plan works no more.
void WebGpuBackend::CountResidentFailure() {
  if (++resident_failure_count_ < kMostResidentFailures) return;
  running_ = DecodeProgramFor(row_count_);
  DropResident();
}

// Several steps may be seen at once, so the whole run is looked at.
void WebGpuBackend::MeasureStep(double now_us) {
  if (run_taken_count_ == 0) {
    first_taken_us_ = now_us;
  } else if (now_us > first_taken_us_) {
    step_us_[row_count_] = (now_us - first_taken_us_) / run_taken_count_;
  }
  ++run_taken_count_;
}

std::span<const float> WebGpuBackend::Logits(uint32_t output_row) const {
  const size_t width = decode_plan_.graph.value(decode_plan_.logits.value).width;
  return std::span(logits_).subspan(output_row * width, width);
}

BackendStats WebGpuBackend::stats() const {
  BackendStats stats;
  stats.weight_bytes = weights_.size_bytes();
  stats.kv_bytes = cache_->size_bytes();
  stats.activation_bytes = prefill_arenas_->size_bytes() + decode_arenas_->size_bytes();
  stats.gpu_bytes = stats.weight_bytes + stats.kv_bytes + stats.activation_bytes;
  stats.dispatches_per_token = dispatches_per_token_;
  stats.is_resident = !resident_.empty() && !trial_;
  return stats;
}

Result<std::unique_ptr<Backend>> WebGpuBackendFactory::Create(const Plan& prefill,
                                                              const Plan& decode,
                                                              const ModelSpec& spec,
                                                              const BackendOptions& options) {
  for (const RopeFrequencies& rope : spec.ropes) {
    weights_.AddVector(rope.name, EncodeFrequencies(rope.values));
  }
  TRY(weights_.Finish());
  ASSIGN_OR_RETURN(std::unique_ptr<Backend> backend,
                   WebGpuBackend::Create(&gpu_, &weights_, prefill, decode, spec, options));
  return backend;
}

}  // namespace nonstop
