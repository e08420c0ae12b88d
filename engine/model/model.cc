#include "model/model.h"

#include "base/format.h"
#include "model/registry.h"

namespace nonstop {
namespace {

std::string ShapeText(const GgufTensor& tensor) {
  std::string out;
  for (uint32_t i = 0; i < tensor.dimension_count; ++i) {
    AppendFormat(out, i == 0 ? "%llu" : ", %llu",
                 static_cast<unsigned long long>(tensor.dimensions[i]));
  }
  return out;
}

// Tensors that hold numbers for the spec rather than operands of the graph.
bool IsSpecTensor(std::string_view name) {
  return name == "rope_freqs.weight" || name == "rope_factors_long.weight" ||
         name == "rope_factors_short.weight";
}

Status CheckAllUsed(const GgufSet& files, const Graph& graph, const ModelSpec& spec) {
  Status status;
  files.ForEachTensor([&](const GgufTensor& tensor) {
    bool is_used = IsSpecTensor(tensor.name);
    for (size_t i = 0; i < graph.values.size() && !is_used; ++i) {
      is_used = graph.values[i].kind == ValueKind::kWeight && graph.values[i].name == tensor.name;
    }
    if (is_used || !status.ok()) return;
    status = MakeError(ErrorCode::kUnsupportedArchitecture,
                       "Tensor \"%s\" is not used by architecture (%s) as known here.",
                       Printable(tensor.name).c_str(), spec.architecture->name);
  });
  return status;
}

}  // namespace

std::string LayerTensor(uint32_t layer, const char* suffix) {
  return Format("blk.%u.%s", layer, suffix);
}

ValueId ModelBuilder::MatrixRows(std::string_view name, uint32_t row_begin, uint32_t row_count,
                                 uint32_t tensor_row_count, uint32_t column_count) {
  const GgufTensor* tensor = files_.FindTensor(name);
  DType dtype = DType::kF32;
  if (tensor == nullptr) {
    Fail(MakeError(ErrorCode::kMissingTensor, "Tensor \"%.*s\" is missing.",
                   static_cast<int>(name.size()), name.data()));
  } else if (tensor->column_count() != column_count || tensor->row_count() != tensor_row_count) {
    Fail(MakeError(ErrorCode::kWrongShape, "Tensor \"%s\" has shape (%s), not (%u, %u).",
                   tensor->name.c_str(), ShapeText(*tensor).c_str(), column_count,
                   tensor_row_count));
  } else if (!GetDType(tensor->dtype).is_computed) {
    Fail(MakeError(ErrorCode::kUnsupportedType, "Tensor \"%s\" has type (%s), not computed with.",
                   tensor->name.c_str(), GetDType(tensor->dtype).name));
  } else {
    dtype = tensor->dtype;
  }
  return build.MatrixRows(name, dtype, row_begin, row_count, column_count);
}

ValueId ModelBuilder::Vector(std::string_view name, uint32_t length) {
  const GgufTensor* tensor = files_.FindTensor(name);
  if (tensor == nullptr) {
    Fail(MakeError(ErrorCode::kMissingTensor, "Tensor \"%.*s\" is missing.",
                   static_cast<int>(name.size()), name.data()));
  } else if (tensor->column_count() != length || tensor->row_count() != 1) {
    Fail(MakeError(ErrorCode::kWrongShape, "Tensor \"%s\" has shape (%s), not (%u).",
                   tensor->name.c_str(), ShapeText(*tensor).c_str(), length));
  } else if (tensor->dtype != DType::kF32 && tensor->dtype != DType::kF16 &&
             tensor->dtype != DType::kBF16) {
    Fail(MakeError(ErrorCode::kUnsupportedType, "Vector \"%s\" has type (%s), not a float.",
                   tensor->name.c_str(), GetDType(tensor->dtype).name));
  }
  return build.Vector(name, length);
}

Result<Graph> BuildGraph(const GgufSet& files, const ModelSpec& spec, Phase phase) {
  Graph graph;
  ModelBuilder model(files, spec, &graph);
  GraphBuilder& build = model.build;
  const ValueId table = model.Matrix("token_embd.weight", spec.vocabulary_size, spec.width);
  ValueId cache = build.Cache();
  ValueId x =
      build.Add(OpKind::kEmbed, {build.Indices("ids"), table}, {.scale = spec.embedding_scale});
  for (uint32_t layer = 0; layer < spec.layer_count; ++layer) {
    const bool selects_rows = phase == Phase::kPrefill && layer + 1 == spec.layer_count;
    const ValueId attended = AttentionBlock(model, layer, selects_rows, &x, &cache);
    x = build.Add(OpKind::kAdd, {x, attended});
    x = build.Add(OpKind::kAdd, {x, FeedForwardBlock(model, layer, x)});
  }
  const ValueId head =
      spec.has_tied_head ? table : model.Matrix("output.weight", spec.vocabulary_size, spec.width);
  ValueId logits = build.Add(OpKind::kMatMul, {model.RmsNorm(x, "output_norm.weight"), head});
  if (spec.final_soft_cap != 0.0f) {
    logits = build.Add(OpKind::kSoftCap, {logits}, {.soft_cap = spec.final_soft_cap});
  }
  if (!model.status().ok()) return Error(model.status().error());
  graph.outputs = {logits, cache};
  TRY(CheckAllUsed(files, graph, spec));
  return graph;
}

}  // namespace nonstop
