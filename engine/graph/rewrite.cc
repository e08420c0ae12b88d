#include "graph/rewrite.h"

#include <algorithm>

namespace nonstop {

UseMap::UseMap(const Graph& graph)
    : graph_(graph),
      producers_(graph.values.size(), kNoNode),
      use_counts_(graph.values.size(), 0),
      is_output_(graph.values.size(), false) {
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    for (ValueId id : graph.nodes[i].outputs) producers_[id] = static_cast<uint32_t>(i);
    for (ValueId id : graph.nodes[i].inputs) {
      if (id != kNoValue) ++use_counts_[id];
    }
  }
  for (ValueId id : graph.outputs) is_output_[id] = true;
}

const Node* UseMap::Producer(ValueId id, OpKind op) const {
  const uint32_t index = producer(id);
  if (index == kNoNode || graph_.nodes[index].op != op) return nullptr;
  return &graph_.nodes[index];
}

const Node* UseMap::SingleUse(ValueId id, OpKind op) const {
  const Node* node = Producer(id, op);
  return node != nullptr && use_counts_[id] == 1 && !is_output_[id] ? node : nullptr;
}

namespace {

void MarkNeeded(const Graph& graph, std::vector<bool>* node_needed,
                std::vector<bool>* value_needed) {
  for (ValueId id : graph.outputs) (*value_needed)[id] = true;
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = graph.nodes[i];
    const bool is_needed = std::any_of(node.outputs.begin(), node.outputs.end(),
                                       [&](ValueId id) { return (*value_needed)[id]; });
    if (!is_needed) continue;
    (*node_needed)[i] = true;
    for (ValueId id : node.outputs) (*value_needed)[id] = true;
    for (ValueId id : node.inputs) {
      if (id != kNoValue) (*value_needed)[id] = true;
    }
  }
}

}  // namespace

void RemoveDead(Graph* graph) {
  std::vector<bool> node_needed(graph->nodes.size(), false);
  std::vector<bool> value_needed(graph->values.size(), false);
  MarkNeeded(*graph, &node_needed, &value_needed);

  std::vector<ValueId> renumbered(graph->values.size(), kNoValue);
  std::vector<Value> values;
  for (size_t i = 0; i < graph->values.size(); ++i) {
    if (!value_needed[i]) continue;
    renumbered[i] = static_cast<ValueId>(values.size());
    values.push_back(std::move(graph->values[i]));
  }
  std::vector<Node> nodes;
  for (size_t i = 0; i < graph->nodes.size(); ++i) {
    if (!node_needed[i]) continue;
    nodes.push_back(std::move(graph->nodes[i]));
    for (ValueId& id : nodes.back().inputs) id = id == kNoValue ? kNoValue : renumbered[id];
    for (ValueId& id : nodes.back().outputs) id = renumbered[id];
  }
  for (ValueId& id : graph->outputs) id = renumbered[id];
  graph->values = std::move(values);
  graph->nodes = std::move(nodes);
}

}  // namespace nonstop
