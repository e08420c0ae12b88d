// A model's hyper-parameters as the graph builder wants them, read from a GGUF header by way of the
// architecture's row (model/registry.h). Pure data: no weights, no pointers into the file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "format/gguf_split.h"
#include "graph/op.h"

namespace nonstop {

struct ArchitectureRow;

// A named list of RoPE frequencies (radians per position), one per rotated pair.
struct RopeFrequencies {
  std::string name;  // the constant's name in the graph: "rope", "rope.local"
  std::vector<float> values;
  float magnitude = 1.0f;  // of cosines and sines: YaRN's and longrope's attention factor
};

struct LayerSpec {
  uint32_t window = 0;      // attention.sliding_window where this layer slides; 0: full attention
  uint32_t rope_index = 0;  // into ModelSpec::ropes
};

struct ModelSpec {
  const ArchitectureRow* architecture = nullptr;
  std::string name;  // general.name
  uint32_t layer_count = 0;
  uint32_t width = 0;     // embedding_length
  uint32_t ff_width = 0;  // feed_forward_length
  uint32_t head_count = 0;
  uint32_t kv_head_count = 0;
  uint32_t head_dim = 0;
  uint32_t rotated_dim = 0;
  uint32_t vocabulary_size = 0;
  uint32_t context_length = 0;  // as trained
  float norm_eps = 0.0f;
  float attention_scale = 0.0f;
  float attention_soft_cap = 0.0f;
  float final_soft_cap = 0.0f;
  float embedding_scale = 1.0f;
  bool has_tied_head = false;  // no output.weight: the embedding is the head
  std::vector<LayerSpec> layers;
  std::vector<RopeFrequencies> ropes;

  uint32_t q_width() const { return head_count * head_dim; }
  uint32_t kv_width() const { return kv_head_count * head_dim; }
};

// Sane limits on what a file may claim; anything past them is kMalformed.
struct ModelLimits {
  uint32_t layer_count = 512;
  uint32_t width = 65'536;
  uint32_t ff_width = 524'288;
  uint32_t head_count = 1'024;
  uint32_t head_dim = 1'024;
  uint32_t vocabulary_size = 2'000'000;
  uint32_t context_length = 16u << 20;
};

// `rope_factors`: the model's own factor tensors, already read: they lie in the file's data, not in
// its header, so the spec is first made without them (ReadModelSpec) and completed when they have
// come (ApplyRopeFactors). Needed before the first token, not before the plan.
Result<ModelSpec> ReadModelSpec(const GgufSet& files, const ModelLimits& limits = {});

// The tensor that holds frequency factors for this context length, or "" if the model has none.
std::string RopeFactorTensor(const GgufSet& files, const ModelSpec& spec, uint32_t context_length);
// Divides every frequency by its factor. kWrongShape when the count differs.
Status ApplyRopeFactors(const std::vector<float>& factors, ModelSpec* spec);

}  // namespace nonstop
