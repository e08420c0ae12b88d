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

}  // namespace

Status ResidentTrial::Submit(GpuProgram* program, uint32_t repeat_count,
                             std::vector<float>* logits) {
  const auto once = program->Dispatches(1, 1, /*chooses=*/false);
  std::vector<GpuDispatch> dispatches;
  for (uint32_t i = 0; i < repeat_count; ++i) {
    dispatches.insert(dispatches.end(), once.begin(), once.end());
  }
  logits->resize(plan_.graph.value(plan_.logits.value).width);
  const GpuReadback readback = {.buffer = arenas_.arena(plan_.logits.arena),
                                .size_bytes = static_cast<uint32_t>(logits->size() * sizeof(float)),
                                .offset_bytes = plan_.logits.offset_bytes,
                                .destination = reinterpret_cast<std::byte*>(logits->data())};
  ASSIGN_OR_RETURN(ticket_, model_.gpu->Submit(dispatches, {&readback, 1}));
  return {};
}

Status ResidentTrial::TryResident(uint32_t workgroup_count) {
  workgroup_count_ = workgroup_count;
  resident_.SetResidentWorkgroups(workgroup_count);
  constexpr uint32_t kNone = 0;
  TRY(model_.gpu->Upload(arenas_.relay(), kRelayGaveUpWord * sizeof(uint32_t),
                         std::as_bytes(std::span(&kNone, 1))));
  return Submit(&resident_, 1, &given_);
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

Result<bool> ResidentTrial::Advance(const Clock& clock) {
  while (stage_ != Stage::kDone) {
    if (stage_ != Stage::kBegin && model_.gpu->last_done() < ticket_) return false;
    switch (stage_) {
      case Stage::kBegin: {
        const BatchRow row = {.id = 1, .position = 0, .sequence = 0};
        constexpr uint32_t kFirst = 0;
        const std::span<const uint32_t> pages(&kFirst, 1);
        const std::vector<uint32_t> state = EncodeState(
            model_.layout,
            {.rows = {&row, 1}, .output_rows = {&kFirst, 1}, .page_tables = {&pages, 1}});
        TRY(model_.gpu->Upload(model_.state, 0, std::as_bytes(std::span(state))));
        start_us_ = clock.NowUs();
        TRY(Submit(&chain_, 1, &wanted_));
        stage_ = Stage::kChain;
        break;
      }
      case Stage::kChain:
        timed_count_ = static_cast<uint32_t>(
            std::clamp<double>(kTimedUs / std::max(clock.NowUs() - start_us_, 1.0),
                               kLeastTimedTokens, kMostTimedTokens));
        TRY(TryResident(kMostResidentWorkgroups));
        stage_ = Stage::kResident;
        break;
      case Stage::kResident:
        if (IsAlike() && !is_timed_) {
          serves_ = true;
          stage_ = Stage::kDone;
        } else if (IsAlike()) {
          start_us_ = clock.NowUs();
          TRY(Submit(&chain_, timed_count_, &given_));
          stage_ = Stage::kChainTime;
        } else if (workgroup_count_ > kLeastWorkgroups) {
          TRY(TryResident(workgroup_count_ / 2));
        } else {
          stage_ = Stage::kDone;
        }
        break;
      case Stage::kChainTime:
        chain_us_ = clock.NowUs() - start_us_;
        start_us_ = clock.NowUs();
        TRY(Submit(&resident_, timed_count_, &given_));
        stage_ = Stage::kResidentTime;
        break;
      case Stage::kResidentTime:
        serves_ = IsAlike() && clock.NowUs() - start_us_ < kWantedShare * chain_us_;
        stage_ = Stage::kDone;
        break;
      case Stage::kDone:
        break;
    }
  }
  return true;
}

}  // namespace nonstop
