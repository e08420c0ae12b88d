#include "graph/graph.h"

#include "base/check.h"
#include "graph/verifier.h"

namespace nonstop {

ValueId GraphBuilder::AddValue(Value value) {
  graph_.values.push_back(std::move(value));
  return static_cast<ValueId>(graph_.values.size() - 1);
}

ValueId GraphBuilder::FindOrAdd(Value value) {
  for (size_t i = 0; i < graph_.values.size(); ++i) {
    const Value& have = graph_.values[i];
    if (have.kind == value.kind && have.name == value.name && have.row_begin == value.row_begin &&
        have.row_count == value.row_count && have.width == value.width) {
      return static_cast<ValueId>(i);
    }
  }
  return AddValue(std::move(value));
}

ValueId GraphBuilder::Indices(std::string_view name) {
  return FindOrAdd({.kind = ValueKind::kIndices, .name = std::string(name), .width = 1});
}

ValueId GraphBuilder::Cache() { return AddValue({.kind = ValueKind::kCache, .name = {}}); }

ValueId GraphBuilder::Constant(std::string_view name, uint32_t length) {
  return FindOrAdd({.kind = ValueKind::kConstant, .name = std::string(name), .width = length});
}

ValueId GraphBuilder::Matrix(std::string_view tensor, DType dtype, uint32_t row_count,
                             uint32_t column_count) {
  return MatrixRows(tensor, dtype, 0, row_count, column_count);
}

ValueId GraphBuilder::MatrixRows(std::string_view tensor, DType dtype, uint32_t row_begin,
                                 uint32_t row_count, uint32_t column_count) {
  return FindOrAdd({.kind = ValueKind::kWeight,
                    .name = std::string(tensor),
                    .width = column_count,
                    .row_begin = row_begin,
                    .row_count = row_count,
                    .dtype = dtype});
}

ValueId GraphBuilder::Vector(std::string_view tensor, uint32_t length) {
  return FindOrAdd({.kind = ValueKind::kWeight, .name = std::string(tensor), .width = length});
}

void GraphBuilder::AddNode(OpKind op, std::vector<ValueId> inputs, const OpAttributes& attributes) {
  Result<std::vector<Value>> outputs = InferOutputs(graph_, op, inputs, attributes);
  if (!outputs.ok()) {
    // Shapes were checked when the model's spec was read: this is a fault of the builder.
    CheckFailed(outputs.error().message.c_str(), __FILE_NAME__, __LINE__);
  }
  Node node{.op = op, .inputs = std::move(inputs), .outputs = {}, .attributes = attributes};
  for (Value& value : *outputs) node.outputs.push_back(AddValue(std::move(value)));
  graph_.nodes.push_back(std::move(node));
}

ValueId GraphBuilder::Add(OpKind op, std::vector<ValueId> inputs, const OpAttributes& attributes) {
  AddNode(op, std::move(inputs), attributes);
  return graph_.nodes.back().outputs[0];
}

}  // namespace nonstop
