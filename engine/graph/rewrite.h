// Tools for passes: who produces and uses a value, and a graph without what a pass left dead.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace nonstop {

inline constexpr uint32_t kNoNode = UINT32_MAX;

// Producers and use counts, valid until the graph changes.
class UseMap {
 public:
  explicit UseMap(const Graph& graph);

  uint32_t producer(ValueId id) const { return id == kNoValue ? kNoNode : producers_[id]; }
  uint32_t use_count(ValueId id) const { return use_counts_[id]; }
  bool is_output(ValueId id) const { return is_output_[id]; }
  // The node that produces `id`, if it is an `op` and nothing but one operand uses its result.
  const Node* SingleUse(ValueId id, OpKind op) const;
  const Node* Producer(ValueId id, OpKind op) const;

 private:
  const Graph& graph_;
  std::vector<uint32_t> producers_;
  std::vector<uint32_t> use_counts_;
  std::vector<bool> is_output_;
};

// Drops nodes whose outputs nobody uses, then values that nothing names; renumbers.
void RemoveDead(Graph* graph);

}  // namespace nonstop
