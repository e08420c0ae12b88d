#include "plan/plan.h"

#include "base/format.h"
#include "graph/text.h"
#include "graph/verifier.h"
#include "plan/memory.h"

namespace nonstop {
namespace {

BufferKind BufferOf(ValueKind kind) {
  switch (kind) {
    case ValueKind::kActivation:
      return BufferKind::kArena;
    case ValueKind::kWeight:
      return BufferKind::kWeight;
    case ValueKind::kConstant:
      return BufferKind::kConstant;
    case ValueKind::kIndices:
      return BufferKind::kIndices;
    case ValueKind::kCache:
      return BufferKind::kCache;
  }
  return BufferKind::kArena;
}

Binding Bind(const Graph& graph, const MemoryPlan& memory, ValueId id, Access access) {
  Binding binding{
      .buffer = BufferKind::kArena, .access = access, .arena = 0, .value = id, .offset_bytes = 0};
  if (id == kNoValue) return binding;
  binding.buffer = BufferOf(graph.value(id).kind);
  if (binding.buffer == BufferKind::kArena) {
    binding.arena = memory.placements[id].arena;
    binding.offset_bytes = memory.placements[id].offset_bytes;
  }
  return binding;
}

bool Overwrites(const Node& node, const MemoryPlan& memory, ValueId input) {
  for (ValueId output : node.outputs) {
    if (memory.in_place_of[output] == input) return true;
  }
  return false;
}

void Lower(const MemoryPlan& memory, Plan* plan) {
  for (const Node& node : plan->graph.nodes) {
    Step step{.op = node.op,
              .binding_count = static_cast<uint16_t>(node.inputs.size() + node.outputs.size()),
              .binding_begin = static_cast<uint32_t>(plan->bindings.size()),
              .params_index = static_cast<uint32_t>(plan->params.size()),
              .workgroups = {0, 0, 0}};
    plan->params.push_back(node.attributes);
    for (ValueId id : node.inputs) {
      const bool is_cache_write = id != kNoValue &&
                                  plan->graph.value(id).kind == ValueKind::kCache &&
                                  plan->graph.value(node.outputs.back()).kind == ValueKind::kCache;
      const bool is_updated = is_cache_write || (id != kNoValue && Overwrites(node, memory, id));
      plan->bindings.push_back(
          Bind(plan->graph, memory, id, is_updated ? Access::kReadWrite : Access::kRead));
    }
    for (ValueId id : node.outputs) {
      plan->bindings.push_back(Bind(plan->graph, memory, id, Access::kWrite));
    }
    plan->steps.push_back(step);
  }
}

}  // namespace

Result<Plan> MakePlan(std::string name, Graph graph, const PlanLimits& limits) {
  TRY(Verify(graph));
  Plan plan;
  plan.name = std::move(name);
  plan.graph = std::move(graph);
  plan.limits = limits;
  const MemoryPlan memory = PlanMemory(plan.graph, limits);
  plan.arena_sizes_bytes = memory.arena_sizes_bytes;
  Lower(memory, &plan);
  plan.logits = Bind(plan.graph, memory, plan.graph.outputs[0], Access::kRead);
  TRY(VerifyPlan(plan));
  return plan;
}

namespace {

uint64_t BoundBytes(const Plan& plan, const Binding& binding) {
  const Value& value = plan.graph.value(binding.value);
  const uint64_t rows =
      value.rows == RowSpace::kTokens ? plan.limits.token_rows : plan.limits.output_rows;
  return rows * value.width * sizeof(float);
}

bool IsArena(const Binding& binding) {
  return binding.value != kNoValue && binding.buffer == BufferKind::kArena;
}

// The whole-buffer rule: an arena that a step writes is bound by nothing else in that step, but by
// the input it updates in place.
Status CheckStepArenas(const Plan& plan, const Step& step) {
  for (const Binding& written : plan.BindingsOf(step)) {
    if (!IsArena(written) || written.access != Access::kWrite) continue;
    for (const Binding& read : plan.BindingsOf(step)) {
      if (!IsArena(read) || read.access == Access::kWrite || read.arena != written.arena) continue;
      const bool is_same_place = read.offset_bytes == written.offset_bytes;
      if (read.access == Access::kReadWrite && is_same_place) continue;
      return MakeError(ErrorCode::kInternal, "Step (%s) reads and writes arena (%u).",
                       GetOpInfo(step.op).name, static_cast<unsigned>(written.arena));
    }
  }
  return {};
}

// Replays who owns which bytes: a read must find the value that was written there.
class Occupancy {
 public:
  explicit Occupancy(const Plan& plan) : plan_(plan) {}

  Status Visit(const Step& step) {
    for (const Binding& b : plan_.BindingsOf(step)) {
      if (IsArena(b) && b.access != Access::kWrite) TRY(Read(step, b));
    }
    for (const Binding& b : plan_.BindingsOf(step)) {
      if (IsArena(b) && b.access == Access::kWrite) TRY(Write(step, b));
    }
    return {};
  }

 private:
  struct Range {
    ValueId value;
    uint16_t arena;
    uint64_t begin, end;
  };

  Status Read(const Step& step, const Binding& b) const {
    for (const Range& range : ranges_) {
      if (range.value == b.value) return {};
    }
    return MakeError(ErrorCode::kInternal, "Step (%s) reads value (%%%u), which was overwritten.",
                     GetOpInfo(step.op).name, b.value);
  }

  Status Write(const Step& step, const Binding& b) {
    const uint64_t end = b.offset_bytes + BoundBytes(plan_, b);
    if (end > plan_.arena_sizes_bytes[b.arena]) {
      return MakeError(ErrorCode::kInternal, "Value (%%%u) of step (%s) leaves its arena.", b.value,
                       GetOpInfo(step.op).name);
    }
    std::erase_if(ranges_, [&](const Range& range) {
      return range.arena == b.arena && range.begin < end && b.offset_bytes < range.end;
    });
    ranges_.push_back({b.value, b.arena, b.offset_bytes, end});
    return {};
  }

  const Plan& plan_;
  std::vector<Range> ranges_;
};

}  // namespace

Status VerifyPlan(const Plan& plan) {
  Occupancy occupancy(plan);
  for (const Step& step : plan.steps) {
    TRY(CheckStepArenas(plan, step));
    TRY(occupancy.Visit(step));
  }
  return {};
}

namespace {

void AppendBinding(const Plan& plan, const Binding& binding, std::string& out) {
  if (binding.value == kNoValue) {
    out += '_';
    return;
  }
  const Value& value = plan.graph.value(binding.value);
  const char* access = binding.access == Access::kReadWrite ? "rw "
                       : binding.access == Access::kWrite   ? "w "
                                                            : "";
  switch (binding.buffer) {
    case BufferKind::kArena:
      AppendFormat(out, "%sarena%u+%llu[%u]", access, static_cast<unsigned>(binding.arena),
                   static_cast<unsigned long long>(binding.offset_bytes), value.width);
      break;
    case BufferKind::kCache:
      AppendFormat(out, "%scache", access);
      break;
    default:
      AppendFormat(out, "%s%s", access, value.name.c_str());
      break;
  }
}

}  // namespace

std::string PlanToText(const Plan& plan) {
  std::string out = Format("plan %s: %zu steps, rows %u, outputs %u\n", plan.name.c_str(),
                           plan.steps.size(), plan.limits.token_rows, plan.limits.output_rows);
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const Step& step = plan.steps[i];
    AppendFormat(out, "%4zu %-14s", i, GetOpInfo(step.op).name);
    for (const Binding& binding : plan.BindingsOf(step)) {
      out += ' ';
      AppendBinding(plan, binding, out);
    }
    out += '\n';
  }
  return out;
}

std::string MemoryToText(const Plan& plan) {
  std::string out;
  uint64_t total = 0;
  for (size_t i = 0; i < plan.arena_sizes_bytes.size(); ++i) {
    AppendFormat(out, "arena%zu %llu bytes\n", i,
                 static_cast<unsigned long long>(plan.arena_sizes_bytes[i]));
    total += plan.arena_sizes_bytes[i];
  }
  AppendFormat(out, "activations %llu bytes\n", static_cast<unsigned long long>(total));
  for (const Step& step : plan.steps) {
    for (const Binding& b : plan.BindingsOf(step)) {
      if (!IsArena(b) || b.access != Access::kWrite) continue;
      AppendFormat(out, "%%%u %s arena%u %llu..%llu\n", b.value, GetOpInfo(step.op).name,
                   static_cast<unsigned>(b.arena), static_cast<unsigned long long>(b.offset_bytes),
                   static_cast<unsigned long long>(b.offset_bytes + BoundBytes(plan, b)));
    }
  }
  return out;
}

}  // namespace nonstop
