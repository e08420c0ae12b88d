// From a spec to the graph of a phase. The layer reads as in the papers: norm, attention, residual,
// norm, feed-forward, residual; what an architecture adds is a switch in its row.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "format/gguf_split.h"
#include "graph/graph.h"
#include "model/spec.h"

namespace nonstop {

// kPrefill reads many tokens and wants the logits of few rows; kDecode wants those of every row.
enum class Phase : uint8_t { kPrefill, kDecode };

// The graph in plain ops (rms_norm whole): inputs $ids, $positions, in prefill $output_rows; the
// outputs are the logits and the last cache version.
// kMissingTensor or kWrongShape name the tensor; a tensor of the file that the architecture does
// not use is an error too (the model is then not what its architecture says).
Result<Graph> BuildGraph(const GgufSet& files, const ModelSpec& spec, Phase phase);

// What the blocks build with: weights looked up and checked against the file's tensor table. The
// first error sticks; values are placeholders after it.
class ModelBuilder {
 public:
  ModelBuilder(const GgufSet& files, const ModelSpec& spec, Graph* graph)
      : build(graph), spec(spec), files_(files) {}

  GraphBuilder build;
  const ModelSpec& spec;

  bool Has(std::string_view tensor) const { return files_.FindTensor(tensor) != nullptr; }
  ValueId Matrix(std::string_view tensor, uint32_t row_count, uint32_t column_count) {
    return MatrixRows(tensor, 0, row_count, row_count, column_count);
  }
  // Rows [row_begin, row_begin + row_count) of a tensor of `tensor_row_count` rows.
  ValueId MatrixRows(std::string_view tensor, uint32_t row_begin, uint32_t row_count,
                     uint32_t tensor_row_count, uint32_t column_count);
  ValueId Vector(std::string_view tensor, uint32_t length);
  ValueId OptionalVector(std::string_view tensor, uint32_t length) {
    return Has(tensor) ? Vector(tensor, length) : kNoValue;
  }
  ValueId RmsNorm(ValueId x, std::string_view tensor) {
    return build.Add(OpKind::kRmsNorm, {x, Vector(tensor, spec.width)}, {.eps = spec.norm_eps});
  }
  ValueId Rope(uint32_t rope_index) {
    const RopeFrequencies& rope = spec.ropes[rope_index];
    return build.Constant(rope.name, static_cast<uint32_t>(rope.values.size()));
  }

  const Status& status() const { return status_; }

 private:
  void Fail(Error error) {
    if (status_.ok()) status_ = std::move(error);
  }

  const GgufSet& files_;
  Status status_;
};

// "blk.3.attn_q.weight"
std::string LayerTensor(uint32_t layer, const char* suffix);

// blocks/attention.cc: the attention half of a layer, from the residual stream to what is added to
// it. Reads and replaces *cache. In the last layer of a prefill only the wanted rows go on:
// *residual is then replaced by its selection.
ValueId AttentionBlock(ModelBuilder& model, uint32_t layer, bool selects_rows, ValueId* residual,
                       ValueId* cache);
// blocks/ffn.cc: the gated feed-forward half.
ValueId FeedForwardBlock(ModelBuilder& model, uint32_t layer, ValueId residual);

}  // namespace nonstop
