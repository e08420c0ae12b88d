#include "webgpu/resident_trial.h"

#include <algorithm>
#include <cmath>

#include "plan/batch.h"
#include "webgpu/resident.h"

namespace nonstop {
namespace {

constexpr uint32_t kLeastWorkgroups = 8;
// Of each of the two, a few milliseconds if that may be.
constexpr uint32_t kLeastTimedTokens = 2;
constexpr uint32_t kMostTimedTokens = 16;
constexpr double kTimedUs = 8000.0;
// Logits of the two differ by the order of their sums only.
constexpr float kTolerance = 1e-3f;  // of the largest logit
// What is less than this is no gain that would be worth the risk.
constexpr double kWantedShare = 0.97;
// Of all teams. More were slower: a core runs two at a time.
constexpr uint32_t kMostTogether = 256;

}  // namespace

ResidentTrial::ResidentTrial(const GpuModel& model, const Plan& plan, const GpuArenas& arenas,
                             bool is_timed)
    : model_(model),
      plan_(plan),
      arenas_(arenas),
      is_timed_(is_timed),
      workgroup_count_(kMostResidentWorkgroups) {}

// The same token in all rows, at position 0 of the same page.
Status ResidentTrial::UploadState(uint32_t row_count) {
  std::vector<BatchRow> rows;
  std::vector<uint32_t> output_rows;
  constexpr uint32_t kFirst = 0;
  const std::vector<std::span<const uint32_t>> pages(row_count, std::span(&kFirst, 1));
  for (uint32_t i = 0; i < row_count; ++i) {
    rows.push_back({.id = 1, .position = 0, .sequence = i});
    output_rows.push_back(i);
  }
  const std::vector<uint32_t> state =
      EncodeState(model_.layout, {.rows = rows, .output_rows = output_rows, .page_tables = pages});
  return model_.gpu->Upload(model_.state, 0, std::as_bytes(std::span(state)));
}

Status ResidentTrial::Submit(GpuProgram* program, uint32_t repeat_count,
                             std::vector<float>* logits) {
  const uint32_t row_count = program->row_limit();
  const auto once = program->Dispatches(row_count, row_count, /*chooses=*/false);
  std::vector<GpuDispatch> dispatches;
  for (uint32_t i = 0; i < repeat_count; ++i) {
    dispatches.insert(dispatches.end(), once.begin(), once.end());
  }
  logits->resize(plan_.graph.value(plan_.logits.value).width);
  const auto row_bytes = static_cast<uint32_t>(logits->size() * sizeof(float));
  const GpuReadback readback = {
      .buffer = arenas_.arena(plan_.logits.arena),
      .size_bytes = row_bytes,
      .offset_bytes = plan_.logits.offset_bytes + uint64_t{row_count - 1} * row_bytes,
      .destination = reinterpret_cast<std::byte*>(logits->data())};
  ASSIGN_OR_RETURN(ticket_, model_.gpu->Submit(dispatches, {&readback, 1}));
  return {};
}

Status ResidentTrial::TryResident(GpuProgram* program, uint32_t workgroup_count) {
  workgroup_count_ = workgroup_count;
  program->SetResidentWorkgroups(workgroup_count, kMostTogether);
  constexpr uint32_t kNone[kMostResidentTeams] = {};
  TRY(model_.gpu->Upload(arenas_.relay(), 0, std::as_bytes(std::span(kNone))));
  return Submit(program, 1, &given_);
}

bool ResidentTrial::IsAlike() const {
  float largest = 0.0f;
  for (float logit : wanted_) largest = std::max(largest, std::abs(logit));
  for (size_t i = 0; i < wanted_.size(); ++i) {
    // Not the other way round: NaN is not alike.
    if (!(std::abs(wanted_[i] - given_[i]) <= kTolerance * largest)) return false;
  }
  return true;
}

// On to the next number of rows, if there is one that may serve.
void ResidentTrial::Decide(bool serves, size_t program_count) {
  if (serves) ++serving_count_;
  stage_ = serves && serving_count_ < program_count ? Stage::kBegin : Stage::kDone;
}

Result<bool> ResidentTrial::Advance(const Clock& clock, Programs chain, Programs resident) {
  while (stage_ != Stage::kDone) {
    if (stage_ != Stage::kBegin && model_.gpu->last_done() < ticket_) return false;
    GpuProgram* const wanted = chain[serving_count_].get();
    GpuProgram* const tried = resident[serving_count_].get();
    switch (stage_) {
      case Stage::kBegin:
        TRY(UploadState(wanted->row_limit()));
        start_us_ = clock.NowUs();
        TRY(Submit(wanted, 1, &wanted_));
        stage_ = Stage::kChain;
        break;
      case Stage::kChain:
        timed_count_ = static_cast<uint32_t>(
            std::clamp<double>(kTimedUs / std::max(clock.NowUs() - start_us_, 1.0),
                               kLeastTimedTokens, kMostTimedTokens));
        TRY(TryResident(tried, workgroup_count_));
        stage_ = Stage::kResident;
        break;
      case Stage::kResident:
        if (IsAlike() && !is_timed_) {
          Decide(true, resident.size());
        } else if (IsAlike()) {
          start_us_ = clock.NowUs();
          TRY(Submit(wanted, timed_count_, &given_));
          stage_ = Stage::kChainTime;
        } else if (workgroup_count_ > kLeastWorkgroups) {
          TRY(TryResident(tried, workgroup_count_ / 2));
        } else {
          Decide(false, resident.size());
        }
        break;
      case Stage::kChainTime:
        chain_us_ = clock.NowUs() - start_us_;
        start_us_ = clock.NowUs();
        TRY(Submit(tried, timed_count_, &given_));
        stage_ = Stage::kResidentTime;
        break;
      case Stage::kResidentTime:
        Decide(IsAlike() && clock.NowUs() - start_us_ < kWantedShare * chain_us_, resident.size());
        break;
      case Stage::kDone:
        break;
    }
  }
  return true;
}

}  // namespace nonstop
