// Whether the resident plan serves on this device: WGSL does not promise that workgroups run side
// by side, so it is tried. A token is computed by the chain of dispatches and by the resident plan,
// with fewer workgroups each time that it fails; what gives the chain's logits is then timed
// against it. The same for several rows, until it does not serve: the more rows, the more often it
// reads the weights, which the chain reads once.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "plan/plan.h"
#include "port/clock.h"
#include "webgpu/gpu_model.h"
#include "webgpu/lowering.h"

namespace nonstop {

class ResidentTrial {
 public:
  using Programs = std::span<const std::unique_ptr<GpuProgram>>;

  // All that is passed must outlive the trial; page 0 of the cache must be there.
  // `is_timed`: it serves only where it is faster.
  ResidentTrial(const GpuModel& model, const Plan& plan, const GpuArenas& arenas, bool is_timed);

  // Goes on as far as it can without waiting. True: serving_count() is known. The programs of the
  // two are for the same numbers of rows, ascending.
  Result<bool> Advance(const Clock& clock, Programs chain, Programs resident);
  size_t serving_count() const { return serving_count_; }  // of the resident programs
  bool is_timed() const { return is_timed_; }

 private:
  enum class Stage : uint8_t { kBegin, kChain, kResident, kChainTime, kResidentTime, kDone };

  Status UploadState(uint32_t row_count);
  // Reads the last row's logits back.
  Status Submit(GpuProgram* program, uint32_t repeat_count, std::vector<float>* logits);
  Status TryResident(GpuProgram* program, uint32_t workgroup_count);
  bool IsAlike() const;
  void Decide(bool serves, size_t program_count);

  const GpuModel& model_;
  const Plan& plan_;
  const GpuArenas& arenas_;
  bool is_timed_;
  Stage stage_ = Stage::kBegin;
  GpuTicket ticket_ = 0;
  uint32_t workgroup_count_;  // of a team
  std::vector<float> wanted_;
  std::vector<float> given_;
  uint32_t timed_count_ = 0;
  double start_us_ = 0.0;
  double chain_us_ = 0.0;
  size_t serving_count_ = 0;
};

}  // namespace nonstop
