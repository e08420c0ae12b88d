// Where each activation lies: which arena, at which offset.
// Values that are updated in place (a residual stream) share one place; values that a step reads
// and writes side by side get different arenas; values that do not live together share bytes.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "plan/plan.h"

namespace nonstop {

inline constexpr uint64_t kActivationAlignment = 256;  // WebGPU's largest offset alignment

struct Placement {
  uint16_t arena = 0;
  uint64_t offset_bytes = 0;
  uint64_t size_bytes = 0;
  uint32_t first_node = 0;  // defined here
  uint32_t last_node = 0;   // last read here
};

struct MemoryPlan {
  std::vector<Placement> placements;  // one a value; of activations only
  std::vector<ValueId> in_place_of;   // the input whose place an output took, or kNoValue
  std::vector<uint64_t> arena_sizes_bytes;
};

// The input slot whose place the op's output may take, element by element, or -1.
int InPlaceSlot(OpKind op);

MemoryPlan PlanMemory(const Graph& graph, const PlanLimits& limits);

}  // namespace nonstop
