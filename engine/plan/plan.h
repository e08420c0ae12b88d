// A graph lowered once: memory laid out, and a flat list of Steps that a backend replays.
// Goals: a step list that is constant between tokens, few buffers, WebGPU's rule that a buffer is
// not bound for reading and for writing in one dispatch kept by construction and verified once.
// Non-goals: knowing kernels or workgroup shapes (the backends' lowering fills those in).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"

namespace nonstop {

enum class BufferKind : uint8_t {
  kArena,   // activations; index: which arena
  kWeight,  // a tensor or a range of its rows
  kConstant,
  kIndices,
  kCache,
};

enum class Access : uint8_t { kRead, kWrite, kReadWrite };

// One operand of one step. POD: a backend turns it into a pointer, or into a bind group entry.
struct Binding {
  BufferKind buffer;
  Access access;
  uint16_t arena;         // kArena: which
  ValueId value;          // in Plan::graph: its shape, and the weight's name
  uint64_t offset_bytes;  // kArena: of row 0
};

// `op` names the kernel family; bindings are the node's inputs in slot order (absent ones have
// value kNoValue), then its outputs.
struct Step {
  OpKind op;
  uint16_t binding_count;
  uint32_t binding_begin;
  uint32_t params_index;   // into Plan::params
  uint32_t workgroups[3];  // 0: not lowered for a GPU
};

struct PlanLimits {
  uint32_t token_rows = 1;   // most rows of a token-space activation
  uint32_t output_rows = 1;  // most rows whose logits are wanted in one run
};

struct Plan {
  std::string name;
  Graph graph;
  PlanLimits limits;
  std::vector<Step> steps;
  std::vector<Binding> bindings;
  std::vector<OpAttributes> params;
  std::vector<uint64_t> arena_sizes_bytes;

  std::span<const Binding> BindingsOf(const Step& step) const {
    return {bindings.data() + step.binding_begin, step.binding_count};
  }
  // The logits' binding: rows (output_rows, vocabulary) of f32.
  Binding logits;
};

// Lays out memory and lowers. The graph is verified first and the plan after.
Result<Plan> MakePlan(std::string name, Graph graph, const PlanLimits& limits);

// No two live values overlap; in each step, no arena is bound both for reading and for writing
// except by the one binding that is kReadWrite.
Status VerifyPlan(const Plan& plan);

std::string PlanToText(const Plan& plan);    // the steps, one a line
std::string MemoryToText(const Plan& plan);  // arenas and what lies where

}  // namespace nonstop
