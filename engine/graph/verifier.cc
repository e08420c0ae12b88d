#include "graph/verifier.h"

#include <algorithm>

#include "base/format.h"

namespace nonstop {
namespace {

constexpr ValueKind KindOf(SlotKind slot) {
  switch (slot) {
    case SlotKind::kActivation:
      return ValueKind::kActivation;
    case SlotKind::kMatrix:
    case SlotKind::kVector:
      return ValueKind::kWeight;
    case SlotKind::kConstant:
      return ValueKind::kConstant;
    case SlotKind::kIndices:
      return ValueKind::kIndices;
    case SlotKind::kCache:
      return ValueKind::kCache;
  }
  return ValueKind::kActivation;
}

Error BadOperand(const OpInfo& info, const char* slot, const char* why) {
  return MakeError(ErrorCode::kInternal, "Operand (%s) of op (%s) %s.", slot, info.name, why);
}

Error BadWidth(const OpInfo& info, const char* slot, uint32_t have, uint32_t want) {
  return MakeError(ErrorCode::kInternal, "Operand (%s) of op (%s) has width (%u), not (%u).", slot,
                   info.name, have, want);
}

Status CheckSlots(const Graph& graph, const OpInfo& info, const std::vector<ValueId>& inputs) {
  if (inputs.size() != info.inputs.size()) {
    return MakeError(ErrorCode::kInternal, "Op (%s) has (%zu) operands, not (%zu).", info.name,
                     inputs.size(), info.inputs.size());
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const SlotInfo& slot = info.inputs[i];
    if (inputs[i] == kNoValue) {
      if (!slot.is_optional) return BadOperand(info, slot.name, "is missing");
      continue;
    }
    if (inputs[i] >= graph.values.size()) return BadOperand(info, slot.name, "is undefined");
    const Value& value = graph.value(inputs[i]);
    if (value.kind != KindOf(slot.kind)) return BadOperand(info, slot.name, "has another kind");
    const bool is_matrix = value.kind == ValueKind::kWeight && value.row_count != 0;
    if (slot.kind == SlotKind::kMatrix && !is_matrix) {
      return BadOperand(info, slot.name, "is no matrix");
    }
    if (slot.kind == SlotKind::kVector && is_matrix) {
      return BadOperand(info, slot.name, "is no vector");
    }
  }
  return {};
}

// One node's operands by name, for the shape rules.
class Shapes {
 public:
  Shapes(const Graph& graph, const OpInfo& info, const std::vector<ValueId>& inputs,
         const OpAttributes& attributes)
      : graph_(graph), info_(info), inputs_(inputs), attributes_(attributes) {}

  const Value& in(size_t slot) const { return graph_.value(inputs_[slot]); }
  bool has(size_t slot) const { return inputs_[slot] != kNoValue; }

  static Value Rows(const Value& like, uint32_t width) {
    return {.kind = ValueKind::kActivation, .rows = like.rows, .name = {}, .width = width};
  }
  static Value Cache() { return {.kind = ValueKind::kCache, .name = {}}; }

  Status Width(size_t slot, uint32_t want) const {
    if (has(slot) && in(slot).width != want) {
      return BadWidth(info_, info_.inputs[slot].name, in(slot).width, want);
    }
    return {};
  }
  Status SameRows(size_t a, size_t b) const {
    if (in(a).rows != in(b).rows) return BadOperand(info_, info_.inputs[b].name, "has other rows");
    return {};
  }
  Status GroupDivides(uint32_t width) const {
    const uint32_t group = attributes_.group;
    if (group != 0 && width % group != 0) {
      return MakeError(ErrorCode::kInternal, "Group (%u) of op (%s) does not divide width (%u).",
                       group, info_.name, width);
    }
    return {};
  }
  Status HeadsCover(size_t slot, uint32_t head_count) const {
    return Width(slot, head_count * attributes_.head_dim);
  }

 private:
  const Graph& graph_;
  const OpInfo& info_;
  const std::vector<ValueId>& inputs_;
  const OpAttributes& attributes_;
};

using Outputs = Result<std::vector<Value>>;

Outputs One(Value value) {
  std::vector<Value> out;
  out.push_back(std::move(value));
  return out;
}

Outputs InferMatMul(const Shapes& s, size_t x, size_t w) {
  TRY(s.Width(w, s.in(x).width));
  return One(Shapes::Rows(s.in(x), s.in(w).row_count));
}

Outputs InferNormQkv(const Shapes& s, const OpAttributes& a) {
  const uint32_t width = s.in(0).width;
  const uint32_t q_width = a.head_count * a.head_dim;
  const uint32_t kv_width = a.kv_head_count * a.head_dim;
  TRY(s.Width(1, width));
  for (size_t w = 2; w <= 4; ++w) TRY(s.Width(w, width));
  const uint32_t rows[] = {s.in(2).row_count, s.in(3).row_count, s.in(4).row_count};
  if (rows[0] != q_width || rows[1] != kv_width || rows[2] != kv_width) {
    return MakeError(ErrorCode::kInternal,
                     "Rows (%u, %u, %u) of op (norm_qkv) do not fit its heads (%u, %u of %u).",
                     rows[0], rows[1], rows[2], a.head_count, a.kv_head_count, a.head_dim);
  }
  TRY(s.Width(5, q_width));
  TRY(s.Width(6, kv_width));
  TRY(s.Width(7, kv_width));
  TRY(s.Width(8, a.head_dim));
  TRY(s.Width(9, a.head_dim));
  TRY(s.Width(11, a.rotated_dim / 2));
  std::vector<Value> out;
  out.push_back(Shapes::Rows(s.in(0), q_width));
  out.push_back(Shapes::Cache());
  return out;
}

Outputs InferGroupwise(const Shapes& s, OpKind op, const OpAttributes& a) {
  const uint32_t width = s.in(0).width;
  const uint32_t group = a.group == 0 ? width : a.group;
  TRY(s.GroupDivides(width));
  switch (op) {
    case OpKind::kGroupMean:
      return One(Shapes::Rows(s.in(0), width / group));
    case OpKind::kMulGroup:
      TRY(s.Width(1, width / group));
      break;
    default:
      TRY(s.Width(1, group));
      break;
  }
  return One(Shapes::Rows(s.in(0), width));
}

// The fused ops that start with an RMSNorm over the whole row.
Outputs InferNormed(const Shapes& s, OpKind op) {
  const uint32_t width = s.in(0).width;
  TRY(s.Width(1, width));
  if (op == OpKind::kNormMatMul) return InferMatMul(s, 0, 2);
  TRY(s.Width(2, width));
  if (op == OpKind::kNormAdd) {
    TRY(s.SameRows(0, 2));
    return One(Shapes::Rows(s.in(0), width));
  }
  TRY(s.Width(3, width));
  if (s.in(2).row_count != s.in(3).row_count) {
    return MakeError(ErrorCode::kInternal, "Rows (%u, %u) of op (norm_gate_up) are not equal.",
                     s.in(2).row_count, s.in(3).row_count);
  }
  return One(Shapes::Rows(s.in(0), s.in(2).row_count));
}

}  // namespace

Result<std::vector<Value>> InferOutputs(const Graph& graph, OpKind op,
                                        const std::vector<ValueId>& inputs,
                                        const OpAttributes& attributes) {
  const OpInfo& info = GetOpInfo(op);
  TRY(CheckSlots(graph, info, inputs));
  const Shapes s(graph, info, inputs, attributes);
  switch (op) {
    case OpKind::kEmbed:
      return One({.kind = ValueKind::kActivation, .name = {}, .width = s.in(1).width});
    case OpKind::kMatMul:
      return InferMatMul(s, 0, 1);
    case OpKind::kAddBias:
      TRY(s.Width(1, s.in(0).width));
      break;
    case OpKind::kAdd:
    case OpKind::kMul:
      TRY(s.SameRows(0, 1));
      TRY(s.Width(1, s.in(0).width));
      break;
    case OpKind::kGroupMean:
    case OpKind::kMulGroup:
    case OpKind::kMulWeight:
    case OpKind::kRmsNorm:
      return InferGroupwise(s, op, attributes);
    case OpKind::kRope:
      TRY(s.Width(2, attributes.rotated_dim / 2));
      if (attributes.head_dim == 0 || s.in(0).width % attributes.head_dim != 0 ||
          attributes.rotated_dim > attributes.head_dim || attributes.rotated_dim % 2 != 0) {
        return BadOperand(info, "x", "does not consist of whole heads");
      }
      break;
    case OpKind::kKvWrite:
      TRY(s.HeadsCover(1, attributes.kv_head_count));
      TRY(s.HeadsCover(2, attributes.kv_head_count));
      return One(Shapes::Cache());
    case OpKind::kAttention:
      TRY(s.HeadsCover(0, attributes.head_count));
      if (attributes.kv_head_count == 0 || attributes.head_count % attributes.kv_head_count != 0) {
        return BadOperand(info, "q", "has heads that its KV heads do not divide");
      }
      break;
    case OpKind::kSelectRows: {
      Value out = Shapes::Rows(s.in(0), s.in(0).width);
      out.rows = RowSpace::kOutputs;
      return One(std::move(out));
    }
    case OpKind::kMatMulAdd:
      TRY(s.SameRows(0, 2));
      TRY(s.Width(2, s.in(1).row_count));
      return InferMatMul(s, 0, 1);
    case OpKind::kNormMatMul:
    case OpKind::kNormAdd:
    case OpKind::kNormGateUp:
      return InferNormed(s, op);
    case OpKind::kNormQkv:
      return InferNormQkv(s, attributes);
    default:
      break;  // elementwise
  }
  return One(Shapes::Rows(s.in(0), s.in(0).width));
}

namespace {

// An attribute that the op does not name must have its default.
Status CheckAttributes(const Node& node) {
  const OpInfo& info = GetOpInfo(node.op);
  const OpAttributes defaults;
  const auto table = GetAttributeTable();
  for (size_t i = 0; i < table.size(); ++i) {
    if ((info.attributes >> i) & 1u) continue;
    const AttributeInfo& a = table[i];
    const bool is_default = a.is_float ? node.attributes.*a.float_member == defaults.*a.float_member
                                       : node.attributes.*a.uint_member == defaults.*a.uint_member;
    if (!is_default) {
      return MakeError(ErrorCode::kInternal, "Op (%s) does not use attribute (%s).", info.name,
                       a.name);
    }
  }
  return {};
}

bool SameShape(const Value& a, const Value& b) {
  return a.kind == b.kind && a.rows == b.rows && a.width == b.width;
}

// Definitions and uses, walked in execution order.
class Walk {
 public:
  explicit Walk(const Graph& graph)
      : graph_(graph),
        defined_(graph.values.size()),
        used_(graph.values.size()),
        produced_(graph.values.size()) {
    for (size_t i = 0; i < graph.values.size(); ++i) {
      const ValueKind kind = graph.values[i].kind;
      defined_[i] = kind != ValueKind::kActivation && kind != ValueKind::kCache;
    }
    for (const Node& node : graph.nodes) {
      for (ValueId id : node.outputs) {
        if (id < produced_.size()) produced_[id] = true;
      }
    }
    for (size_t i = 0; i < graph.values.size(); ++i) {  // the cache at the start
      if (graph.values[i].kind == ValueKind::kCache && !produced_[i]) {
        defined_[i] = true;
        live_cache_ = static_cast<ValueId>(i);
        ++initial_cache_count_;
      }
    }
  }

  Status Visit(const Node& node) {
    const OpInfo& info = GetOpInfo(node.op);
    TRY(CheckAttributes(node));
    ASSIGN_OR_RETURN(const std::vector<Value> outputs,
                     InferOutputs(graph_, node.op, node.inputs, node.attributes));
    for (ValueId id : node.inputs) TRY(Use(info, id));
    if (outputs.size() != node.outputs.size()) {
      return MakeError(ErrorCode::kInternal, "Op (%s) has (%zu) outputs, not (%zu).", info.name,
                       node.outputs.size(), outputs.size());
    }
    for (size_t i = 0; i < outputs.size(); ++i) TRY(Define(info, node.outputs[i], outputs[i]));
    return {};
  }

  Status Finish() const {
    if (initial_cache_count_ > 1) {
      return MakeError(ErrorCode::kInternal, "The graph starts with (%u) caches.",
                       initial_cache_count_);
    }
    for (ValueId id : graph_.outputs) {
      if (id >= defined_.size() || !defined_[id]) {
        return MakeError(ErrorCode::kInternal, "Output (%%%u) of the graph is undefined.", id);
      }
    }
    for (size_t i = 0; i < produced_.size(); ++i) {
      const bool is_output =
          std::find(graph_.outputs.begin(), graph_.outputs.end(), i) != graph_.outputs.end();
      if (produced_[i] && !used_[i] && !is_output) {
        return MakeError(ErrorCode::kInternal, "Value (%%%zu) is computed in vain.", i);
      }
    }
    return {};
  }

 private:
  Status Use(const OpInfo& info, ValueId id) {
    if (id == kNoValue) return {};
    if (!defined_[id]) {
      return MakeError(ErrorCode::kInternal, "Op (%s) reads value (%%%u) before it is defined.",
                       info.name, id);
    }
    if (graph_.value(id).kind == ValueKind::kCache && id != live_cache_) {
      return MakeError(ErrorCode::kInternal, "Op (%s) reads an old version (%%%u) of the cache.",
                       info.name, id);
    }
    used_[id] = true;
    return {};
  }

  Status Define(const OpInfo& info, ValueId id, const Value& inferred) {
    if (id >= graph_.values.size() || defined_[id]) {
      return MakeError(ErrorCode::kInternal, "Op (%s) defines value (%%%u) again.", info.name, id);
    }
    if (!SameShape(graph_.value(id), inferred)) {
      return MakeError(ErrorCode::kInternal, "Value (%%%u) of op (%s) has width (%u), not (%u).",
                       id, info.name, graph_.value(id).width, inferred.width);
    }
    defined_[id] = true;
    if (inferred.kind == ValueKind::kCache) live_cache_ = id;
    return {};
  }

  const Graph& graph_;
  std::vector<bool> defined_;
  std::vector<bool> used_;
  std::vector<bool> produced_;
  ValueId live_cache_ = kNoValue;
  uint32_t initial_cache_count_ = 0;
};

}  // namespace

Status Verify(const Graph& graph) {
  Walk walk(graph);
  for (const Node& node : graph.nodes) TRY(walk.Visit(node));
  return walk.Finish();
}

}  // namespace nonstop
