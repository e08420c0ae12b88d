// What each composite and fused op means, in plainer ops. This is the fused ops' documentation,
// their fallback where a backend lacks the fused kernel, and the oracle of their tests.
#pragma once

#include "graph/graph.h"

namespace nonstop {

// Appends the definition of `node` to the builder's graph, one level down (a norm_matmul becomes an
// rms_norm and a matmul). Returns the values that stand for node.outputs.
std::vector<ValueId> Define(GraphBuilder& build, const Node& node);

// The graph with every node of kind `op` replaced by its definition.
Graph Expand(const Graph& graph, OpKind op);

// The graph with every fused op replaced, until only plain ops and rms_norm are left.
Graph ExpandFused(const Graph& graph);

}  // namespace nonstop
