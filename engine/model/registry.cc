#include "model/registry.h"

namespace nonstop {
namespace {

constexpr ArchitectureRow kArchitectures[] = {
    {.name = "llama", .activation = Activation::kSilu},
    {.name = "qwen2", .rope_halves = true, .activation = Activation::kSilu, .has_qkv_bias = true},
    {.name = "qwen3", .rope_halves = true, .activation = Activation::kSilu, .has_head_norms = true},
    {.name = "gemma2",
     .rope_halves = true,
     .activation = Activation::kGelu,
     .has_post_norms = true,
     .scales_embedding = true,
     .window_pattern = 2,
     .default_attention_soft_cap = 50.0f,
     .default_final_soft_cap = 30.0f,
     .default_window = 4096,
     .wide_scale_layer_count = 46},
    {.name = "gemma3",
     .rope_halves = true,
     .activation = Activation::kGelu,
     .has_head_norms = true,
     .has_post_norms = true,
     .scales_embedding = true,
     .window_pattern = 6,
     .local_rope_base = 10000.0f,
     .wide_scale_layer_count = 62},
    {.name = "phi3",
     .rope_halves = true,
     .activation = Activation::kSilu,
     .has_fused_qkv = true,
     .has_fused_gate_up = true,
     .ignores_window = true},
};

}  // namespace

std::span<const ArchitectureRow> GetArchitectures() { return kArchitectures; }

const ArchitectureRow* FindArchitecture(std::string_view name) {
  for (const ArchitectureRow& row : kArchitectures) {
    if (name == row.name) return &row;
  }
  return nullptr;
}

}  // namespace nonstop
