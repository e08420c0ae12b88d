#include "graph/text.h"

#include <charconv>
#include <cstdlib>
#include <map>

#include "base/format.h"
#include "graph/verifier.h"

namespace nonstop {
namespace {

void AppendValue(const Graph& graph, const std::vector<uint32_t>& numbers, ValueId id,
                 std::string& out) {
  if (id == kNoValue) {
    out += '_';
    return;
  }
  const Value& value = graph.value(id);
  switch (value.kind) {
    case ValueKind::kActivation:
    case ValueKind::kCache:
      AppendFormat(out, "%%%u", numbers[id]);
      break;
    case ValueKind::kIndices:
      AppendFormat(out, "$%s", value.name.c_str());
      break;
    case ValueKind::kConstant:
      AppendFormat(out, "#%s[%u]", value.name.c_str(), value.width);
      break;
    case ValueKind::kWeight:
      if (value.row_count == 0) {
        AppendFormat(out, "@%s[%u]", value.name.c_str(), value.width);
      } else if (value.row_begin == 0) {
        AppendFormat(out, "@%s[%u, %u]:%s", value.name.c_str(), value.row_count, value.width,
                     GetDType(value.dtype).name);
      } else {
        AppendFormat(out, "@%s[%u:%u, %u]:%s", value.name.c_str(), value.row_begin,
                     value.row_begin + value.row_count, value.width, GetDType(value.dtype).name);
      }
      break;
  }
}

void AppendAttributes(const Node& node, std::string& out) {
  const OpAttributes defaults;
  bool first = true;
  for (const AttributeInfo& a : GetAttributeTable()) {
    const bool is_default = a.is_float ? node.attributes.*a.float_member == defaults.*a.float_member
                                       : node.attributes.*a.uint_member == defaults.*a.uint_member;
    if (is_default) continue;
    out += first ? " {" : ", ";
    first = false;
    if (a.is_float) {
      AppendFormat(out, "%s=%.9g", a.name, static_cast<double>(node.attributes.*a.float_member));
    } else {
      AppendFormat(out, "%s=%u", a.name, node.attributes.*a.uint_member);
    }
  }
  if (!first) out += '}';
}

// Numbers activations and cache versions in order of appearance, so that equal graphs print equal.
std::vector<uint32_t> NumberValues(const Graph& graph) {
  std::vector<uint32_t> numbers(graph.values.size(), UINT32_MAX);
  uint32_t next = 0;
  const auto visit = [&](ValueId id) {
    if (id != kNoValue && numbers[id] == UINT32_MAX) {
      const ValueKind kind = graph.value(id).kind;
      if (kind == ValueKind::kActivation || kind == ValueKind::kCache) numbers[id] = next++;
    }
  };
  for (const Node& node : graph.nodes) {
    for (ValueId id : node.inputs) visit(id);
    for (ValueId id : node.outputs) visit(id);
  }
  return numbers;
}

}  // namespace

std::string GraphToText(const Graph& graph) {
  const std::vector<uint32_t> numbers = NumberValues(graph);
  std::string out;
  for (const Node& node : graph.nodes) {
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (i != 0) out += ", ";
      AppendValue(graph, numbers, node.outputs[i], out);
    }
    AppendFormat(out, " = %s(", GetOpInfo(node.op).name);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (i != 0) out += ", ";
      AppendValue(graph, numbers, node.inputs[i], out);
    }
    out += ')';
    AppendAttributes(node, out);
    const Value& first = graph.value(node.outputs[0]);
    if (first.kind == ValueKind::kActivation) {
      AppendFormat(out, " -> f32[%s, %u]", first.rows == RowSpace::kTokens ? "tokens" : "outputs",
                   first.width);
    }
    out += '\n';
  }
  out += "return";
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    out += i == 0 ? " " : ", ";
    AppendValue(graph, numbers, graph.outputs[i], out);
  }
  out += '\n';
  return out;
}

namespace {

// One line's cursor. Failures are sticky: the caller looks once, at the end of a line.
class LineReader {
 public:
  explicit LineReader(std::string_view line) : rest_(line) {}

  bool failed() const { return failed_; }
  bool done() {
    SkipSpace();
    return rest_.empty();
  }
  bool Accept(std::string_view token) {
    SkipSpace();
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }
  void Expect(std::string_view token) {
    if (!Accept(token)) failed_ = true;
  }
  std::string_view Word(std::string_view extra = "_.") {
    SkipSpace();
    size_t length = 0;
    while (length < rest_.size() && (std::isalnum(static_cast<unsigned char>(rest_[length])) != 0 ||
                                     extra.find(rest_[length]) != std::string_view::npos)) {
      ++length;
    }
    if (length == 0) failed_ = true;
    const std::string_view word = rest_.substr(0, length);
    rest_.remove_prefix(length);
    return word;
  }
  uint32_t Uint() {
    SkipSpace();
    uint32_t value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc()) {
      failed_ = true;
      return 0;
    }
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    return value;
  }
  float Float() {
    const std::string word(Word("+-.e"));
    return std::strtof(word.c_str(), nullptr);
  }

 private:
  void SkipSpace() {
    while (!rest_.empty() && rest_.front() == ' ') rest_.remove_prefix(1);
  }

  std::string_view rest_;
  bool failed_ = false;
};

class GraphReader {
 public:
  Result<Graph> Read(std::string_view text) {
    uint32_t line_number = 0;
    bool returned = false;
    while (!text.empty()) {
      const size_t end = std::min(text.find('\n'), text.size());
      std::string_view line = text.substr(0, end);
      text.remove_prefix(std::min(end + 1, text.size()));
      ++line_number;
      const size_t start = line.find_first_not_of(" \t");
      if (start == std::string_view::npos || returned) continue;
      Status status = ReadLine(line.substr(start), &returned);
      if (!status.ok()) return std::move(status).error().With(Format("Line (%u)", line_number));
    }
    return std::move(graph_);
  }

 private:
  Status ReadLine(std::string_view line, bool* returned) {
    LineReader in(line);
    if (in.Accept("return")) {
      *returned = true;
      while (!in.done() && !in.failed()) {
        graph_.outputs.push_back(ReadOperand(in, nullptr));
        in.Accept(",");
      }
      return Finished(in, line);
    }
    return ReadNode(in, line);
  }

  static Status Finished(const LineReader& in, std::string_view line) {
    if (!in.failed()) return {};
    return MakeError(ErrorCode::kMalformed, "Text (%s) is no graph node.", Printable(line).c_str());
  }

  Status ReadNode(LineReader& in, std::string_view line) {
    std::vector<uint32_t> output_numbers;
    do {
      in.Expect("%");
      output_numbers.push_back(in.Uint());
    } while (in.Accept(","));
    in.Expect("=");
    const OpInfo* info = FindOpInfo(in.Word("_"));
    in.Expect("(");
    if (info == nullptr || in.failed()) {
      return MakeError(ErrorCode::kMalformed, "Text (%s) names no op.", Printable(line).c_str());
    }
    Node node{.op = info->kind, .inputs = {}, .outputs = {}, .attributes = {}};
    while (!in.Accept(")") && !in.failed() && node.inputs.size() < info->inputs.size()) {
      node.inputs.push_back(ReadOperand(in, &info->inputs[node.inputs.size()]));
      in.Accept(",");
    }
    in.Accept(")");
    ReadAttributes(in, node.attributes);
    TRY(Finished(in, line));
    ASSIGN_OR_RETURN(std::vector<Value> outputs,
                     InferOutputs(graph_, node.op, node.inputs, node.attributes));
    if (outputs.size() != output_numbers.size()) {
      return MakeError(ErrorCode::kMalformed, "Op (%s) has (%zu) outputs.", info->name,
                       outputs.size());
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      node.outputs.push_back(Append(std::move(outputs[i])));
      numbered_[output_numbers[i]] = node.outputs.back();
    }
    graph_.nodes.push_back(std::move(node));
    return {};
  }

  static void ReadAttributes(LineReader& in, OpAttributes& attributes) {
    if (!in.Accept("{")) return;
    while (!in.Accept("}") && !in.failed()) {
      const std::string_view name = in.Word("_");
      in.Expect("=");
      for (const AttributeInfo& a : GetAttributeTable()) {
        if (name != a.name) continue;
        if (a.is_float) {
          attributes.*a.float_member = in.Float();
        } else {
          attributes.*a.uint_member = in.Uint();
        }
      }
      in.Accept(",");
    }
  }

  ValueId ReadOperand(LineReader& in, const SlotInfo* slot) {
    GraphBuilder build(&graph_);
    if (in.Accept("%")) return Numbered(in.Uint(), slot);
    if (in.Accept("$")) return build.Indices(in.Word());
    if (in.Accept("#")) {
      const std::string name(in.Word());
      in.Expect("[");
      const uint32_t length = in.Uint();
      in.Expect("]");
      return build.Constant(name, length);
    }
    if (in.Accept("@")) return ReadWeight(in, build);
    in.Expect("_");
    return kNoValue;
  }

  static ValueId ReadWeight(LineReader& in, GraphBuilder& build) {
    const std::string name(in.Word());
    in.Expect("[");
    const uint32_t first = in.Uint();
    if (in.Accept("]")) return build.Vector(name, first);
    const bool is_range = in.Accept(":");
    const uint32_t end = is_range ? in.Uint() : first;
    const uint32_t begin = is_range ? first : 0;
    in.Expect(",");
    const uint32_t columns = in.Uint();
    in.Expect("]");
    in.Expect(":");
    const std::string_view type = in.Word("_");
    for (uint32_t id = 0; id < 64; ++id) {
      const DTypeInfo* info = FindDType(id);
      if (info != nullptr && type == info->name) {
        return build.MatrixRows(name, info->dtype, begin, end - begin, columns);
      }
    }
    in.Expect("a tensor type");
    return kNoValue;
  }

  // A number not seen before is the cache at the graph's start (activations are always computed).
  ValueId Numbered(uint32_t number, const SlotInfo* slot) {
    const auto found = numbered_.find(number);
    if (found != numbered_.end()) return found->second;
    if (slot == nullptr || slot->kind != SlotKind::kCache) return kNoValue;
    return numbered_[number] = Append({.kind = ValueKind::kCache, .name = {}});
  }

  ValueId Append(Value value) {
    graph_.values.push_back(std::move(value));
    return static_cast<ValueId>(graph_.values.size() - 1);
  }

  Graph graph_;
  std::map<uint32_t, ValueId> numbered_;
};

}  // namespace

Result<Graph> GraphFromText(std::string_view text) { return GraphReader().Read(text); }

}  // namespace nonstop
