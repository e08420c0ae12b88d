// A model's computation for one phase, as values in single assignment and nodes in order.
// Goals: printable and readable back (graph/text.h), verified after each pass (graph/verifier.h),
// small. Non-goals: control flow, autodiff, dynamic ranks: an activation is always (rows, width)
// f32, where rows is one row a token of the batch, or one a wanted output.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/op.h"
#include "tensor/dtype.h"

namespace nonstop {

using ValueId = uint32_t;
inline constexpr ValueId kNoValue = UINT32_MAX;

enum class ValueKind : uint8_t {
  kActivation,
  kWeight,    // a tensor of the file, or a range of its rows
  kConstant,  // numbers computed from hyper-parameters
  kIndices,   // per-token integers from the host: "ids", "positions", "output_rows"
  kCache,     // a version of the KV cache
};

// How many rows an activation has at run time.
enum class RowSpace : uint8_t { kTokens, kOutputs };

struct Value {
  ValueKind kind = ValueKind::kActivation;
  RowSpace rows = RowSpace::kTokens;
  std::string name;           // weights: the tensor's; constants and indices: theirs; else empty
  uint32_t width = 0;         // activations, vectors, constants: columns; matrices: columns
  uint32_t row_begin = 0;     // matrices: the range of the tensor's rows
  uint32_t row_count = 0;     // matrices: rows; 0 for a vector
  DType dtype = DType::kF32;  // weights: as in the file
};

struct Node {
  OpKind op;
  std::vector<ValueId> inputs;  // one a slot of the op's row; kNoValue where optional and absent
  std::vector<ValueId> outputs;
  OpAttributes attributes;
};

struct Graph {
  std::vector<Value> values;
  std::vector<Node> nodes;       // in execution order
  std::vector<ValueId> outputs;  // values that must survive: the logits, the last cache version

  const Value& value(ValueId id) const { return values[id]; }
};

// Adds values and nodes; the helpers infer the outputs' shapes by the op's rule (graph/verifier.h).
class GraphBuilder {
 public:
  explicit GraphBuilder(Graph* graph) : graph_(*graph) {}

  ValueId Indices(std::string_view name);
  ValueId Cache();  // the version at the graph's start
  ValueId Constant(std::string_view name, uint32_t length);
  ValueId Matrix(std::string_view tensor, DType dtype, uint32_t row_count, uint32_t column_count);
  ValueId MatrixRows(std::string_view tensor, DType dtype, uint32_t row_begin, uint32_t row_count,
                     uint32_t column_count);
  ValueId Vector(std::string_view tensor, uint32_t length);

  // One node with one output (the first, where there are two: see AddNode).
  ValueId Add(OpKind op, std::vector<ValueId> inputs, const OpAttributes& attributes = {});
  // The node's outputs are in graph.nodes.back().outputs.
  void AddNode(OpKind op, std::vector<ValueId> inputs, const OpAttributes& attributes);

 private:
  ValueId AddValue(Value value);
  ValueId FindOrAdd(Value value);

  Graph& graph_;
};

}  // namespace nonstop
