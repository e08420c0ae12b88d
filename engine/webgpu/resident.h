// The resident plan: the layers of a plan for a token as one dispatch whose workgroups run at the
// same time and hand results on to each other (kernels/resident.wgsl). It serves where a token
// costs more by being cut in dispatches than by its memory: small models. Several rows are of two
// teams of workgroups or more, each of which reads the weights for itself. Non-goals: layers of
// other ops than norm_qkv, attention, matmul_add, norm_gate_up, matmul_add. What is not served has
// the chain of dispatches.
#pragma once

#include <optional>
#include <vector>

#include "plan/plan.h"
#include "webgpu/gpu_model.h"

namespace nonstop {

// Of a team. A GPU that runs fewer at the same time gets fewer.
inline constexpr uint32_t kMostResidentWorkgroups = 128;
inline constexpr uint32_t kMostResidentRows = 8;
// The relay begins with a word for each team, of one row and of several: set by a run in which a
// workgroup has not got what it waited for.
inline constexpr uint32_t kMostResidentTeams = 2 * kMostResidentRows;

struct ResidentCall {
  KernelCall call;
  size_t first_step = 0;  // of the plan: those that it takes the place of
  size_t end_step = 0;
  ActivationPlace x;  // in and out
};

// For up to `row_limit` rows. Nothing where the plan, the weights or the device do not allow it.
Result<std::optional<ResidentCall>> LowerResident(const GpuModel& model, const Plan& plan,
                                                  uint32_t row_limit, GpuArenas* arenas);

}  // namespace nonstop
