// Whether the resident plan serves on this device: WGSL does not promise that workgroups run side
// by side, so it is tried. One token is computed by the chain of dispatches and by the resident
// plan, with fewer workgroups each time that it fails; what gives the chain's logits is then timed
// against it.
#pragma once

#include <optional>
#include <vector>

#include "plan/plan.h"
#include "port/clock.h"
#include "webgpu/gpu_model.h"
#include "webgpu/lowering.h"

namespace nonstop {

class ResidentTrial {
 public:
  // All that is passed must outlive the trial; page 0 of the cache must be there.
  // `is_timed`: it serves only where it is faster.
  ResidentTrial(const GpuModel& model, const Plan& plan, const GpuArenas& arenas, GpuProgram* chain,
                GpuProgram* resident, bool is_timed)
      : model_(model),
        plan_(plan),
        arenas_(arenas),
        chain_(*chain),
        resident_(*resident),
        is_timed_(is_timed) {}

  // Goes on as far as it can without waiting. True: serves() is known.
  Result<bool> Advance(const Clock& clock);
  bool serves() const { return serves_; }
  bool is_timed() const { return is_timed_; }

 private:
  enum class Stage : uint8_t { kBegin, kChain, kResident, kChainTime, kResidentTime, kDone };

  Status Submit(GpuProgram* program, uint32_t repeat_count, std::vector<float>* logits);
  Status TryResident(uint32_t workgroup_count);
  bool IsAlike() const;

  const GpuModel& model_;
  const Plan& plan_;
  const GpuArenas& arenas_;
  GpuProgram& chain_;
  GpuProgram& resident_;
  bool is_timed_;
  Stage stage_ = Stage::kBegin;
  GpuTicket ticket_ = 0;
  uint32_t workgroup_count_ = 0;
  std::vector<float> wanted_;
  std::vector<float> given_;
  uint32_t timed_count_ = 0;
  double start_us_ = 0.0;
  double chain_us_ = 0.0;
  bool serves_ = false;
};

}  // namespace nonstop
