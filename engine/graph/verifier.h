// What a graph must satisfy: run after building and after every pass.
#pragma once

#include "base/result.h"
#include "graph/graph.h"

namespace nonstop {

// The outputs of a node by its op's shape rule: widths, row spaces, kinds.
// An error names the op and the operand that does not fit (a fault of ours, or a model whose
// tensors do not fit each other).
Result<std::vector<Value>> InferOutputs(const Graph& graph, OpKind op,
                                        const std::vector<ValueId>& inputs,
                                        const OpAttributes& attributes);

// Single assignment in order, operands of the slots' kinds, shapes as inferred, one chain of cache
// versions (each version is written once and no older one is read afterwards), outputs defined, no
// activation computed in vain, no attribute set that the op does not use.
Status Verify(const Graph& graph);

}  // namespace nonstop
