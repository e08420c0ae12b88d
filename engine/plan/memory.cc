#include "plan/memory.h"

#include <algorithm>
#include <bit>

#include "base/bytes.h"
#include "base/sort.h"

namespace nonstop {

int InPlaceSlot(OpKind op) {
  switch (op) {
    case OpKind::kAddBias:
    case OpKind::kAdd:
    case OpKind::kMul:
    case OpKind::kScale:
    case OpKind::kSilu:
    case OpKind::kGelu:
    case OpKind::kSoftCap:
    case OpKind::kRope:
      return 0;
    case OpKind::kMatMulAdd:
    case OpKind::kNormAdd:
      return 2;
    default:
      return -1;
  }
}

namespace {

bool IsActivation(const Graph& graph, ValueId id) {
  return id != kNoValue && graph.value(id).kind == ValueKind::kActivation;
}

// Values in one place form a class; classes are merged along in-place updates.
class Classes {
 public:
  Classes(const Graph& graph, const PlanLimits& limits, MemoryPlan* plan)
      : graph_(graph), plan_(*plan), parents_(graph.values.size()) {
    for (size_t i = 0; i < parents_.size(); ++i) parents_[i] = static_cast<ValueId>(i);
    for (size_t i = 0; i < parents_.size(); ++i) {
      if (!IsActivation(graph, static_cast<ValueId>(i))) continue;
      const Value& value = graph.values[i];
      const uint64_t rows =
          value.rows == RowSpace::kTokens ? limits.token_rows : limits.output_rows;
      plan_.placements[i].size_bytes =
          RoundUp<uint64_t>(rows * value.width * sizeof(float), kActivationAlignment);
    }
    FindLifetimes();
    MergeInPlace();
  }

  ValueId Find(ValueId id) const {
    while (parents_[id] != id) id = parents_[id];
    return id;
  }

 private:
  void FindLifetimes() {
    for (uint32_t i = 0; i < graph_.nodes.size(); ++i) {
      for (ValueId id : graph_.nodes[i].outputs) {
        plan_.placements[id].first_node = plan_.placements[id].last_node = i;
      }
      for (ValueId id : graph_.nodes[i].inputs) {
        if (id != kNoValue) plan_.placements[id].last_node = i;
      }
    }
    for (ValueId id : graph_.outputs) {
      plan_.placements[id].last_node = static_cast<uint32_t>(graph_.nodes.size());
    }
  }

  void MergeInPlace() {
    for (uint32_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      const int slot = InPlaceSlot(node.op);
      if (slot < 0) continue;
      const ValueId input = node.inputs[static_cast<size_t>(slot)];
      const ValueId output = node.outputs[0];
      const auto same = std::count(node.inputs.begin(), node.inputs.end(), input);
      if (plan_.placements[input].last_node != i || same != 1) continue;
      if (plan_.placements[input].size_bytes != plan_.placements[output].size_bytes) continue;
      plan_.in_place_of[output] = input;
      parents_[output] = Find(input);
    }
  }

  const Graph& graph_;
  MemoryPlan& plan_;
  std::vector<ValueId> parents_;
};

// Gives each class the lowest arena that none of its neighbours has: two classes are neighbours
// when a step reads one and writes the other.
void ColourArenas(const Graph& graph, const Classes& classes, MemoryPlan* plan) {
  const size_t count = graph.values.size();
  std::vector<std::vector<ValueId>> neighbours(count);
  std::vector<ValueId> order;
  std::vector<bool> is_ordered(count, false);
  for (const Node& node : graph.nodes) {
    for (ValueId output : node.outputs) {
      if (!IsActivation(graph, output)) continue;
      const ValueId written = classes.Find(output);
      if (!is_ordered[written]) order.push_back(written);
      is_ordered[written] = true;
      for (ValueId input : node.inputs) {
        if (!IsActivation(graph, input) || classes.Find(input) == written) continue;
        neighbours[written].push_back(classes.Find(input));
        neighbours[classes.Find(input)].push_back(written);
      }
    }
  }
  std::vector<int> colours(count, -1);
  for (ValueId id : order) {
    uint64_t taken = 0;
    for (ValueId other : neighbours[id]) {
      if (colours[other] >= 0) taken |= uint64_t{1} << colours[other];
    }
    colours[id] = std::countr_one(taken);
  }
  for (size_t i = 0; i < count; ++i) {
    const ValueId id = static_cast<ValueId>(i);
    if (IsActivation(graph, id)) {
      plan->placements[i].arena = static_cast<uint16_t>(colours[classes.Find(id)]);
    }
  }
}

struct Block {
  ValueId id;
  Placement placement;  // of the whole class
};

bool LiveTogether(const Placement& a, const Placement& b) {
  return a.arena == b.arena && a.first_node <= b.last_node && b.first_node <= a.last_node;
}

// First fit below what lives at the same time, largest class first.
void AssignOffsets(const Graph& graph, const Classes& classes, MemoryPlan* plan) {
  std::vector<Block> blocks;
  std::vector<size_t> block_of(graph.values.size(), SIZE_MAX);
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const ValueId id = static_cast<ValueId>(i);
    if (!IsActivation(graph, id)) continue;
    const ValueId root = classes.Find(id);
    if (block_of[root] == SIZE_MAX) {
      block_of[root] = blocks.size();
      blocks.push_back({root, plan->placements[root]});
    }
    Placement& whole = blocks[block_of[root]].placement;
    whole.first_node = std::min(whole.first_node, plan->placements[i].first_node);
    whole.last_node = std::max(whole.last_node, plan->placements[i].last_node);
  }
  HeapSort(std::span<Block>(blocks), [](const Block& a, const Block& b) {
    if (a.placement.size_bytes != b.placement.size_bytes) {
      return a.placement.size_bytes > b.placement.size_bytes;
    }
    return a.id < b.id;
  });
  for (size_t i = 0; i < blocks.size(); ++i) {
    Placement& mine = blocks[i].placement;
    std::vector<const Placement*> others;
    for (size_t j = 0; j < i; ++j) {
      if (LiveTogether(mine, blocks[j].placement)) others.push_back(&blocks[j].placement);
    }
    HeapSort(std::span<const Placement*>(others), [](const Placement* a, const Placement* b) {
      return a->offset_bytes < b->offset_bytes;
    });
    uint64_t offset = 0;
    for (const Placement* other : others) {
      if (offset + mine.size_bytes <= other->offset_bytes) break;
      offset = std::max(offset, other->offset_bytes + other->size_bytes);
    }
    mine.offset_bytes = offset;
    if (plan->arena_sizes_bytes.size() <= mine.arena)
      plan->arena_sizes_bytes.resize(mine.arena + 1u);
    uint64_t& size = plan->arena_sizes_bytes[mine.arena];
    size = std::max(size, offset + mine.size_bytes);
  }
  std::vector<uint64_t> offsets(graph.values.size(), 0);
  for (const Block& block : blocks) offsets[block.id] = block.placement.offset_bytes;
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const ValueId id = static_cast<ValueId>(i);
    if (IsActivation(graph, id)) plan->placements[i].offset_bytes = offsets[classes.Find(id)];
  }
}

}  // namespace

MemoryPlan PlanMemory(const Graph& graph, const PlanLimits& limits) {
  MemoryPlan plan;
  plan.placements.resize(graph.values.size());
  plan.in_place_of.assign(graph.values.size(), kNoValue);
  const Classes classes(graph, limits, &plan);
  ColourArenas(graph, classes, &plan);
  AssignOffsets(graph, classes, &plan);
  return plan;
}

}  // namespace nonstop
