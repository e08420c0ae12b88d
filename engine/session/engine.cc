#include "session/engine.h"

#include <algorithm>

#include "base/format.h"
#include "base/json_writer.h"
#include "graph/passes/passes.h"
#include "graph/text.h"
#include "model/registry.h"

namespace nonstop {
namespace {

Status CheckRange(const char* name, uint32_t value, uint32_t least, uint32_t most) {
  if (value >= least && value <= most) return {};
  return MakeError(ErrorCode::kInvalidArgument, "Option %s (%u) is outside (%u to %u).", name,
                   value, least, most);
}

Result<const PlanInfo*> FindPlanOrError(std::string_view name) {
  const PlanInfo* plan = FindPlan(name);
  if (plan != nullptr) return plan;
  std::string names;
  for (const PlanInfo& info : GetPlanTable()) {
    if (!names.empty()) names += ", ";
    names += info.name;
  }
  return MakeError(ErrorCode::kInvalidArgument, "Plan (%s) is unknown; (%s) are known.",
                   Printable(name).c_str(), names.c_str());
}

ResidentUse ResidentUseOf(std::string_view plan_name) {
  if (plan_name == "auto") return ResidentUse::kAuto;
  if (plan_name == "resident") return ResidentUse::kAlways;
  return plan_name == "resident-1" ? ResidentUse::kAlone : ResidentUse::kNever;
}

// What the graph's passes are for a plan; how its steps are run is the backend's.
std::string_view GraphPlanName(std::string_view plan_name) {
  return ResidentUseOf(plan_name) == ResidentUse::kNever ? plan_name : "fused";
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::Create(const EngineOptions& options, const Clock* clock,
                                               RequestSink* sink,
                                               std::unique_ptr<BackendFactory> factory) {
  EngineOptions checked = options;
  if (checked.prefill_chunk == 0) checked.prefill_chunk = factory->default_prefill_chunk();
  TRY(CheckRange("threads", checked.thread_count, 1, kMaxThreadCount));
  TRY(CheckRange("prefill chunk", checked.prefill_chunk, 1, kMaxPrefillChunk));
  TRY(CheckRange("sequences", checked.max_sequence_count, 1, kMaxSequenceCount));
  TRY(FindPlanOrError(GraphPlanName(checked.plan_name)));
  return std::unique_ptr<Engine>(new Engine(checked, clock, sink, std::move(factory)));
}

uint32_t Engine::context_length() const {
  return options_.context_length == 0 ? spec_.context_length : options_.context_length;
}

Result<Plan> Engine::BuildPlan(std::string_view wanted, Phase phase,
                               const PlanLimits& limits) const {
  const std::string_view plan_name = GraphPlanName(wanted);
  ASSIGN_OR_RETURN(const PlanInfo* info, FindPlanOrError(plan_name));
  ASSIGN_OR_RETURN(Graph graph, BuildGraph(*loader_.files(), spec_, phase));
  TRY(RunPasses(*info, &graph));
  return MakePlan(std::string(plan_name), std::move(graph), limits);
}

Status Engine::AfterHeader() {
  const GgufSet* files = loader_.files();
  if (files == nullptr) {
    return MakeError(ErrorCode::kWrongState, "The headers of all (%u) files are needed first.",
                     loader_.split_count());
  }
  ASSIGN_OR_RETURN(spec_, ReadModelSpec(*files));
  if (options_.context_length > spec_.context_length * 16ull) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "Option context (%u) is more than 16 times the trained context (%u).",
                     options_.context_length, spec_.context_length);
  }
  const uint32_t sequences = options_.max_sequence_count;
  const uint32_t prompts =
      std::min({sequences, options_.prefill_chunk, factory_->wanted_prompt_count()});
  ASSIGN_OR_RETURN(prefill_plan_,
                   BuildPlan(options_.plan_name, Phase::kPrefill,
                             {.token_rows = options_.prefill_chunk, .output_rows = prompts}));
  ASSIGN_OR_RETURN(decode_plan_, BuildPlan(options_.plan_name, Phase::kDecode,
                                           {.token_rows = sequences, .output_rows = sequences}));
  ASSIGN_OR_RETURN(tokenizer_, Tokenizer::Create(files->metadata()));
  if (tokenizer_->vocabulary_size() > spec_.vocabulary_size) {
    return MakeError(ErrorCode::kWrongShape,
                     "The tokenizer has (%u) tokens, the embedding (%u) rows.",
                     tokenizer_->vocabulary_size(), spec_.vocabulary_size);
  }
  has_spec_ = true;
  return {};
}

Status Engine::ApplyRopeFactorTensor() {
  const std::string name = RopeFactorTensor(*loader_.files(), spec_, context_length());
  if (name.empty()) return {};
  const std::vector<float>* factors = factory_->weights().FindVector(name);
  if (factors == nullptr) {
    return MakeError(ErrorCode::kWrongShape, "Tensor \"%s\" is no vector.", name.c_str());
  }
  return ApplyRopeFactors(*factors, &spec_);
}

Status Engine::FinishLoading() {
  if (!has_spec_ || !loader_.is_complete() || scheduler_ != nullptr) {
    return MakeError(ErrorCode::kWrongState, "The model's bytes are not complete.");
  }
  TRY(ApplyRopeFactorTensor());
  const std::span<const TokenId> end_tokens = tokenizer_->end_tokens();
  ASSIGN_OR_RETURN(backend_, factory_->Create(prefill_plan_, decode_plan_, spec_,
                                              {.context_length = context_length(),
                                               .max_sequence_count = options_.max_sequence_count,
                                               .kv_is_f32 = options_.kv_type == cpu::KvType::kF32,
                                               .end_tokens = {end_tokens.begin(), end_tokens.end()},
                                               .resident = ResidentUseOf(options_.plan_name)}));
  scheduler_ = std::make_unique<Scheduler>(
      backend_.get(), tokenizer_.get(), &sink_, &clock_,
      SchedulerOptions{.context_length = context_length(),
                       .vocabulary_size = spec_.vocabulary_size,
                       .max_sequence_count = options_.max_sequence_count});
  return {};
}

Result<std::string> Engine::PlanText(std::string_view plan_name, uint32_t row_count,
                                     PlanDump what) const {
  if (!has_spec_) return MakeError(ErrorCode::kWrongState, "No model header is complete.");
  TRY(CheckRange("rows", row_count, 1, kMaxPrefillChunk));
  const Phase phase = row_count <= kMaxSequenceCount ? Phase::kDecode : Phase::kPrefill;
  const uint32_t outputs = phase == Phase::kDecode ? row_count : 1;
  ASSIGN_OR_RETURN(const Plan plan,
                   BuildPlan(plan_name.empty() ? options_.plan_name : plan_name, phase,
                             {.token_rows = row_count, .output_rows = outputs}));
  switch (what) {
    case PlanDump::kGraph:
      return GraphToText(plan.graph);
    case PlanDump::kSteps:
      return PlanToText(plan);
    case PlanDump::kMemory:
      return MemoryToText(plan);
  }
  return std::string();
}

Result<std::string> Engine::ModelJson() const {
  if (!has_spec_) return MakeError(ErrorCode::kWrongState, "No model header is complete.");
  const Gguf& metadata = loader_.files()->metadata();
  uint64_t parameter_count = 0;
  uint64_t weight_bytes = 0;
  loader_.files()->ForEachTensor([&](const GgufTensor& tensor) {
    parameter_count += tensor.column_count() * tensor.row_count();
    weight_bytes += tensor.size_bytes;
  });
  JsonWriter json;
  json.BeginObject();
  json.Key("architecture").String(spec_.architecture->name);
  json.Key("name").String(spec_.name);
  json.Key("parameter_count").Int(static_cast<int64_t>(parameter_count));
  json.Key("weight_bytes").Int(static_cast<int64_t>(weight_bytes));
  json.Key("file_count").Int(static_cast<int64_t>(loader_.files()->file_count()));
  json.Key("layer_count").Int(spec_.layer_count);
  json.Key("width").Int(spec_.width);
  json.Key("vocabulary_size").Int(spec_.vocabulary_size);
  json.Key("trained_context_length").Int(spec_.context_length);
  json.Key("context_length").Int(context_length());
  json.Key("tokenizer").String(tokenizer_->model_name());
  json.Key("pre_tokenizer").String(tokenizer_->pre_tokenizer_name());
  json.Key("adds_bos").Bool(tokenizer_->adds_bos());
  json.Key("adds_eos").Bool(tokenizer_->adds_eos());
  const auto token = [&](const char* name, TokenId id) {
    json.Key(Format("%s_id", name)).Int(id);
    json.Key(Format("%s_text", name));
    json.String(id == kNoToken ? std::string_view() : tokenizer_->text(id));
  };
  token("bos", tokenizer_->bos());
  token("eos", tokenizer_->eos());
  json.Key("end_ids").BeginArray();
  for (TokenId id : tokenizer_->end_tokens()) json.Int(id);
  json.EndArray();
  const auto chat_template = metadata.FindString("tokenizer.chat_template");
  json.Key("chat_template");
  if (chat_template.ok() && *chat_template) {
    json.String(**chat_template);
  } else {
    json.Null();
  }
  json.EndObject();
  return json.Take();
}

std::string Engine::InfoJson() const {
  const BackendStats now = stats();
  JsonWriter json;
  json.BeginObject();
  json.Key("backend").String(factory_->name());
  json.Key("plan").String(now.is_resident ? "resident" : GraphPlanName(options_.plan_name));
  json.Key("kv").String(options_.kv_type == cpu::KvType::kF16 ? "f16" : "f32");
  json.Key("activations").String(options_.activation == cpu::ActivationType::kQ8 ? "q8" : "f32");
  json.Key("threads").Int(options_.thread_count);
  json.Key("prefill_chunk").Int(options_.prefill_chunk);
  json.Key("max_sequence_count").Int(options_.max_sequence_count);
  json.Key("decode_steps").Int(static_cast<int64_t>(decode_plan_.steps.size()));
  json.Key("barriers_per_token").Int(now.barriers_per_token);
  json.Key("weight_bytes").Int(static_cast<int64_t>(now.weight_bytes));
  json.Key("kv_bytes").Int(static_cast<int64_t>(now.kv_bytes));
  json.Key("activation_bytes").Int(static_cast<int64_t>(now.activation_bytes));
  json.EndObject();
  return json.Take();
}

Result<uint32_t> Engine::Start(RequestOptions options) {
  if (!is_ready()) return MakeError(ErrorCode::kWrongState, "No model is loaded.");
  return scheduler_->Start(std::move(options));
}

void Engine::Cancel(uint32_t request_id) {
  if (is_ready()) scheduler_->Cancel(request_id);
}

PumpStatus Engine::Pump(double budget_us) {
  if (!is_ready()) return PumpStatus::kIdle;
  return scheduler_->Pump(clock_.NowUs() + budget_us);
}

BackendStats Engine::stats() const { return backend_ ? backend_->stats() : BackendStats(); }

}  // namespace nonstop
