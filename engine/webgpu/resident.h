// The resident plan: the layers of a plan for one token as one dispatch whose workgroups run at the
// same time and hand results on to each other (kernels/resident.wgsl). It serves where a token
// costs more by being cut in dispatches than by its memory: small models. Non-goals: several rows,
// layers of other ops than norm_qkv, attention, matmul_add, norm_gate_up, matmul_add. What is not
// served has the chain of dispatches.
#pragma once

#include <optional>
#include <vector>

#include "plan/plan.h"
#include "webgpu/gpu_model.h"

namespace nonstop {

// A GPU that runs fewer at the same time gets fewer.
inline constexpr uint32_t kMostResidentWorkgroups = 128;
// Of the relay: set by a run in which a workgroup has not got what it waited for.
inline constexpr uint32_t kRelayGaveUpWord = 2;

struct ResidentCall {
  KernelCall call;
  size_t first_step = 0;  // of the plan: those that it takes the place of
  size_t end_step = 0;
  ActivationPlace x;  // in and out
};

// Nothing where the plan, the weights or the device do not allow it.
Result<std::optional<ResidentCall>> LowerResident(const GpuModel& model, const Plan& plan,
                                                  GpuArenas* arenas);

}  // namespace nonstop
