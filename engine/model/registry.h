// One row per architecture: models are data. A new model is a new row; new code comes only with a
// new block. Facts: llama.cpp's src/llama-model.cpp and src/models/*.cpp.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "graph/op.h"

namespace nonstop {

struct ArchitectureRow {
  const char* name = nullptr;  // general.architecture
  bool rope_halves = false;    // pairs (i, i + dim/2), "neox"; else adjacent pairs
  Activation activation = Activation::kSilu;
  bool has_qkv_bias = false;       // required, not optional
  bool has_head_norms = false;     // attn_q_norm, attn_k_norm of head_dim
  bool has_post_norms = false;     // post_attention_norm, post_ffw_norm
  bool has_fused_qkv = false;      // attn_qkv.weight
  bool has_fused_gate_up = false;  // ffn_up.weight holds gate, then up
  bool scales_embedding = false;   // by sqrt(width)
  bool ignores_window = false;     // the key is there, the layers do not slide (phi3 in llama.cpp)
  uint32_t window_pattern = 0;     // of every n layers the last is global; 0: none slide
  float local_rope_base = 0.0f;    // of sliding layers; 0: the model's own
  float default_attention_soft_cap = 0.0f;
  float default_final_soft_cap = 0.0f;
  uint32_t default_window = 0;  // where the file does not say
  // Where attention is scaled by 1/sqrt(width / head_count) rather than 1/sqrt(head_dim): the layer
  // count of that one size (gemma 27B); 0: never.
  uint32_t wide_scale_layer_count = 0;
};

std::span<const ArchitectureRow> GetArchitectures();
const ArchitectureRow* FindArchitecture(std::string_view name);

}  // namespace nonstop
