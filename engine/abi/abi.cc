// The exported functions: arguments out of linear memory, results and errors back into it.
// What lies in a struct from the host is copied and checked before it is used.
#include "abi/abi.h"

#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string>

#include "abi/event_buffer.h"
#include "abi/linear_memory.h"
#include "abi/module_backend.h"
#include "base/bytes.h"
#include "session/engine.h"

namespace nonstop::abi {
namespace {

extern "C" {
__attribute__((import_module("nonstop"), import_name("now_us"))) double ns_import_now_us();
}

class HostClock final : public Clock {
 public:
  double NowUs() const override { return ns_import_now_us(); }
};

struct Thread {
  AlignedBuffer stack;
  AlignedBuffer tls;
};

// One engine a module: all state of this layer.
struct Module {
  HostClock clock;
  EventBuffer events;
  Error error;
  std::string result;
  std::vector<Thread> threads;
  cpu::Pool pool;  // outlives engines: the host's threads stay in it
  std::unique_ptr<Engine> engine;
};

constexpr uint32_t kThreadStackBytes = 256u << 10;

Module& GetModule() {
  static Module* module = new Module();  // never destroyed: exports may come at any time
  return *module;
}

int32_t Fail(Error error) {
  Module& module = GetModule();
  const auto code = static_cast<int32_t>(error.code);
  module.error = std::move(error);
  return -code;
}

template <class T>
int32_t Finish(Result<T> result) {
  if (!result.ok()) return Fail(std::move(result).error());
  if constexpr (std::is_same_v<T, std::string>) {
    GetModule().result = std::move(result).value();
    return 0;
  } else {
    return static_cast<int32_t>(*result);
  }
}

int32_t Finish(Status status) { return status.ok() ? 0 : Fail(std::move(status).error()); }

Result<Engine*> GetEngine() {
  Engine* engine = GetModule().engine.get();
  if (engine == nullptr) return MakeError(ErrorCode::kWrongState, "No engine was created.");
  return engine;
}

Result<const Tokenizer*> GetTokenizer() {
  ASSIGN_OR_RETURN(const Engine* engine, GetEngine());
  if (engine->tokenizer() == nullptr) {
    return MakeError(ErrorCode::kWrongState, "No model header is complete.");
  }
  return engine->tokenizer();
}

Status CreateEngine(uint32_t options_ptr) {
  ASSIGN_OR_RETURN(const auto views, View<NsEngineOptions>(options_ptr, 1, "options"));
  const NsEngineOptions given = views[0];
  if (given.kv_type > 1 || given.activation_type > 1) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "KV type (%u) or activation type (%u) is unknown.", given.kv_type,
                     given.activation_type);
  }
  EngineOptions options;
  options.uses_reference = given.backend == static_cast<uint32_t>(NsBackend::kCpuReference);
  options.thread_count = given.thread_count;
  options.context_length = given.context_length;
  options.max_sequence_count = given.max_sequence_count == 0 ? 1 : given.max_sequence_count;
  options.prefill_chunk = given.prefill_chunk;
  options.kv_type = given.kv_type == 0 ? cpu::KvType::kF16 : cpu::KvType::kF32;
  options.activation =
      given.activation_type == 0 ? cpu::ActivationType::kQ8 : cpu::ActivationType::kF32;
  if (given.plan_name_size != 0) {
    ASSIGN_OR_RETURN(options.plan_name, Text(given.plan_name_ptr, given.plan_name_size, "plan"));
  }
  Module& module = GetModule();
  module.engine.reset();
  module.events.Clear();
  ASSIGN_OR_RETURN(std::unique_ptr<BackendFactory> factory,
                   MakeModuleBackend(static_cast<NsBackend>(given.backend), options, &module.pool));
  ASSIGN_OR_RETURN(module.engine,
                   Engine::Create(options, &module.clock, &module.events, std::move(factory)));
  return {};
}

Result<std::vector<std::string>> ReadStopStrings(uint32_t ptr, uint32_t count) {
  std::vector<std::string> strings;
  for (uint32_t i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(const auto size, View<uint32_t>(ptr, 1, "stop"));
    ASSIGN_OR_RETURN(std::string text, Text(ptr + 4, size[0], "stop"));
    ptr += 4 + RoundUp(size[0], 4u);
    strings.push_back(std::move(text));
  }
  return strings;
}

SamplingOptions ReadSampling(const NsRequest& given) {
  return {.temperature = given.temperature,
          .top_k = given.top_k,
          .top_p = given.top_p,
          .min_p = given.min_p,
          .repeat_penalty = given.repeat_penalty,
          .presence_penalty = given.presence_penalty,
          .frequency_penalty = given.frequency_penalty,
          .penalty_last_n = given.penalty_last_n,
          .seed = uint64_t{given.seed_high} << 32 | given.seed_low};
}

Result<RequestOptions> ReadRequest(uint32_t request_ptr) {
  ASSIGN_OR_RETURN(const auto views, View<NsRequest>(request_ptr, 1, "request"));
  const NsRequest given = views[0];
  ASSIGN_OR_RETURN(const auto prompt,
                   View<int32_t>(given.prompt_ids_ptr, given.prompt_count, "prompt"));
  ASSIGN_OR_RETURN(const auto forced,
                   View<int32_t>(given.forced_ids_ptr, given.forced_count, "forced ids"));
  ASSIGN_OR_RETURN(const auto biases,
                   View<NsLogitBias>(given.logit_bias_ptr, given.logit_bias_count, "logit bias"));
  RequestOptions options;
  options.prompt.assign(prompt.begin(), prompt.end());
  options.forced.assign(forced.begin(), forced.end());
  options.max_tokens = given.max_tokens;
  options.top_logprobs = given.top_logprobs;
  options.ignores_end = (given.flags & static_cast<uint32_t>(NsRequestFlag::kIgnoreEos)) != 0;
  options.shows_special = (given.flags & static_cast<uint32_t>(NsRequestFlag::kSpecialText)) != 0;
  ASSIGN_OR_RETURN(options.stop, ReadStopStrings(given.stop_ptr, given.stop_count));
  for (const NsLogitBias& bias : biases) options.biases.push_back({bias.token_id, bias.bias});
  options.sampling = ReadSampling(given);
  return options;
}

Result<uint32_t> StartRequest(uint32_t request_ptr) {
  ASSIGN_OR_RETURN(Engine * engine, GetEngine());
  ASSIGN_OR_RETURN(RequestOptions options, ReadRequest(request_ptr));
  return engine->Start(std::move(options));
}

Result<uint32_t> Commit(uint32_t size_bytes) {
  ASSIGN_OR_RETURN(Engine * engine, GetEngine());
  ASSIGN_OR_RETURN(const LoadProgress progress, engine->loader().Commit(size_bytes));
  if (progress == LoadProgress::kHeaderComplete && engine->loader().files() != nullptr) {
    TRY(engine->AfterHeader());
  }
  return static_cast<uint32_t>(progress);
}

Result<uint32_t> Tokenize(uint32_t text_ptr, uint32_t text_size, uint32_t flags) {
  ASSIGN_OR_RETURN(const Tokenizer* tokenizer, GetTokenizer());
  ASSIGN_OR_RETURN(const auto text, View<char>(text_ptr, text_size, "text"));
  const std::vector<TokenId> ids =
      tokenizer->Encode({text.data(), text.size()},
                        {.add_special = (flags & 1u) != 0, .parse_special = (flags & 2u) != 0});
  GetModule().result.assign(reinterpret_cast<const char*>(ids.data()),
                            ids.size() * sizeof(TokenId));
  return static_cast<uint32_t>(ids.size());
}

Result<std::string> Detokenize(uint32_t ids_ptr, uint32_t id_count, bool with_special) {
  ASSIGN_OR_RETURN(const Tokenizer* tokenizer, GetTokenizer());
  ASSIGN_OR_RETURN(const auto ids, View<int32_t>(ids_ptr, id_count, "ids"));
  for (TokenId id : ids) {
    if (id >= 0 && static_cast<uint32_t>(id) < tokenizer->vocabulary_size()) continue;
    return MakeError(ErrorCode::kInvalidArgument, "Token id (%d) is outside the vocabulary (%u).",
                     id, tokenizer->vocabulary_size());
  }
  StreamingDetokenizer detokenizer(*tokenizer, with_special);
  std::string text;
  for (TokenId id : ids) detokenizer.Push(id, &text);
  detokenizer.Finish(&text);
  return text;
}

Result<uint32_t> MetadataString(uint32_t key_ptr, uint32_t key_size) {
  ASSIGN_OR_RETURN(Engine * engine, GetEngine());
  ASSIGN_OR_RETURN(const std::string key, Text(key_ptr, key_size, "key"));
  if (engine->loader().files() == nullptr) {
    return MakeError(ErrorCode::kWrongState, "No model header is complete.");
  }
  ASSIGN_OR_RETURN(const auto text, engine->loader().files()->metadata().FindString(key));
  GetModule().result = text ? std::string(*text) : std::string();
  return text ? 1u : 0u;
}

Result<std::string> PlanText(uint32_t name_ptr, uint32_t name_size, uint32_t row_count,
                             uint32_t what) {
  ASSIGN_OR_RETURN(Engine * engine, GetEngine());
  ASSIGN_OR_RETURN(const std::string name, Text(name_ptr, name_size, "plan"));
  if (what > 2) return MakeError(ErrorCode::kInvalidArgument, "Dump (%u) is unknown.", what);
  return engine->PlanText(name, row_count, static_cast<PlanDump>(what));
}

NsStats MakeStats(const Engine& engine) {
  const BackendStats stats = engine.stats();
  return {.weight_bytes = static_cast<double>(stats.weight_bytes),
          .kv_bytes = static_cast<double>(stats.kv_bytes),
          .activation_bytes = static_cast<double>(stats.activation_bytes),
          .memory_bytes = static_cast<double>(MemorySizeBytes()),
          .gpu_bytes = static_cast<double>(stats.gpu_bytes),
          .dispatches_per_token = stats.dispatches_per_token,
          .barriers_per_token = stats.barriers_per_token,
          .thread_count = stats.thread_count,
          .active_sequence_count = engine.active_count()};
}

template <class Action>
int32_t WithEngine(Action&& action) {
  Result<Engine*> engine = GetEngine();
  if (!engine.ok()) return Fail(std::move(engine).error());
  return Finish(action(**engine));
}

Thread* GetThread(uint32_t thread_index) {
  if (thread_index == 0 || thread_index >= Engine::kMaxThreadCount) return nullptr;
  std::vector<Thread>& threads = GetModule().threads;
  if (threads.size() <= thread_index) threads.resize(thread_index + 1);
  return &threads[thread_index];
}

uint32_t Allocate(AlignedBuffer* buffer, uint32_t size_bytes) {
  Result<AlignedBuffer> created = AlignedBuffer::Create(size_bytes);
  if (!created.ok()) return 0;
  *buffer = std::move(*created);
  return Offset(buffer->data());
}

}  // namespace

extern "C" {

NS_EXPORT(ns_abi_version) uint32_t ns_abi_version() { return kAbiVersion; }
NS_EXPORT(ns_alloc) uint32_t ns_alloc(uint32_t size_bytes) {
  return Offset(std::malloc(size_bytes));
}
NS_EXPORT(ns_free) void ns_free(uint32_t ptr) { std::free(Pointer<void>(ptr)); }
NS_EXPORT(ns_error_ptr) uint32_t ns_error_ptr() { return Offset(GetModule().error.message.data()); }
NS_EXPORT(ns_error_size) uint32_t ns_error_size() {
  return static_cast<uint32_t>(GetModule().error.message.size());
}
NS_EXPORT(ns_error_code_name) uint32_t ns_error_code_name(uint32_t code) {
  return Offset(ErrorCodeName(static_cast<ErrorCode>(code)));
}
NS_EXPORT(ns_result_ptr) uint32_t ns_result_ptr() { return Offset(GetModule().result.data()); }
NS_EXPORT(ns_result_size) uint32_t ns_result_size() {
  return static_cast<uint32_t>(GetModule().result.size());
}

NS_EXPORT(ns_create) int32_t ns_create(uint32_t options_ptr) {
  return Finish(CreateEngine(options_ptr));
}
NS_EXPORT(ns_destroy) void ns_destroy() {
  GetModule().engine.reset();
  GetModule().events.Clear();
}

NS_EXPORT(ns_load_begin) int32_t ns_load_begin(uint32_t file_index, double file_size_bytes) {
  return WithEngine(
      [&](Engine& engine) { return engine.loader().BeginFile(file_index, file_size_bytes); });
}
NS_EXPORT(ns_load_reserve) uint32_t ns_load_reserve(uint32_t size_bytes) {
  Engine* engine = GetModule().engine.get();
  if (engine == nullptr) return 0;
  Result<std::span<std::byte>> place = engine->loader().Reserve(size_bytes);
  return place.ok() ? Offset(place->data()) : 0;
}
NS_EXPORT(ns_load_commit) int32_t ns_load_commit(uint32_t size_bytes) {
  return Finish(Commit(size_bytes));
}
NS_EXPORT(ns_load_end) int32_t ns_load_end() {
  return WithEngine([](Engine& engine) { return engine.loader().EndFile(); });
}
NS_EXPORT(ns_load_split_count) int32_t ns_load_split_count() {
  Engine* engine = GetModule().engine.get();
  return engine == nullptr ? 1 : static_cast<int32_t>(engine->loader().split_count());
}
NS_EXPORT(ns_load_finish) int32_t ns_load_finish() {
  return WithEngine([](Engine& engine) { return engine.FinishLoading(); });
}
NS_EXPORT(ns_model_json) int32_t ns_model_json() {
  return WithEngine([](Engine& engine) { return engine.ModelJson(); });
}
NS_EXPORT(ns_metadata_string) int32_t ns_metadata_string(uint32_t key_ptr, uint32_t key_size) {
  return Finish(MetadataString(key_ptr, key_size));
}
NS_EXPORT(ns_plan_text)
int32_t ns_plan_text(uint32_t plan_name_ptr, uint32_t plan_name_size, uint32_t row_count,
                     uint32_t what) {
  return Finish(PlanText(plan_name_ptr, plan_name_size, row_count, what));
}

NS_EXPORT(ns_tokenize)
int32_t ns_tokenize(uint32_t text_ptr, uint32_t text_size, uint32_t flags) {
  return Finish(Tokenize(text_ptr, text_size, flags));
}
NS_EXPORT(ns_detokenize)
int32_t ns_detokenize(uint32_t ids_ptr, uint32_t id_count, uint32_t with_special) {
  return Finish(Detokenize(ids_ptr, id_count, with_special != 0));
}

NS_EXPORT(ns_request_start) int32_t ns_request_start(uint32_t request_ptr) {
  return Finish(StartRequest(request_ptr));
}
NS_EXPORT(ns_request_cancel) int32_t ns_request_cancel(uint32_t request_id) {
  return WithEngine([&](Engine& engine) -> Status {
    engine.Cancel(request_id);
    return {};
  });
}
NS_EXPORT(ns_pump) uint32_t ns_pump(uint32_t budget_us) {
  Engine* engine = GetModule().engine.get();
  return engine == nullptr ? 0 : static_cast<uint32_t>(engine->Pump(budget_us));
}
NS_EXPORT(ns_events_ptr) uint32_t ns_events_ptr() {
  return Offset(GetModule().events.bytes().data());
}
NS_EXPORT(ns_events_size) uint32_t ns_events_size() {
  return static_cast<uint32_t>(GetModule().events.bytes().size());
}
NS_EXPORT(ns_events_clear) void ns_events_clear() { GetModule().events.Clear(); }
NS_EXPORT(ns_stats) int32_t ns_stats(uint32_t stats_ptr) {
  return WithEngine([&](Engine& engine) -> Status {
    TRY(View<NsStats>(stats_ptr, 1, "stats"));
    StoreLe(Pointer<void>(stats_ptr), MakeStats(engine));
    return {};
  });
}
NS_EXPORT(ns_info_json) int32_t ns_info_json() {
  return WithEngine([](Engine& engine) -> Result<std::string> { return engine.InfoJson(); });
}

NS_EXPORT(ns_thread_stack_top) uint32_t ns_thread_stack_top(uint32_t thread_index) {
  Thread* thread = GetThread(thread_index);
  if (thread == nullptr) return 0;
  const uint32_t base = Allocate(&thread->stack, kThreadStackBytes);
  return base == 0 ? 0 : base + kThreadStackBytes;
}
NS_EXPORT(ns_thread_tls)
uint32_t ns_thread_tls(uint32_t thread_index, uint32_t size_bytes, uint32_t alignment) {
  Thread* thread = GetThread(thread_index);
  if (thread == nullptr || alignment > AlignedBuffer::kAlignment) return 0;
  return Allocate(&thread->tls, size_bytes == 0 ? 1 : size_bytes);
}
NS_EXPORT(ns_thread_main) void ns_thread_main(uint32_t) { GetModule().pool.WorkerLoop(); }
NS_EXPORT(ns_threads_ready) uint32_t ns_threads_ready() { return GetModule().pool.worker_count(); }
NS_EXPORT(ns_threads_stop) void ns_threads_stop() { GetModule().pool.Stop(); }
NS_EXPORT(ns_thread_died) void ns_thread_died() { GetModule().pool.ReportDeath(); }

}  // extern "C"

}  // namespace nonstop::abi
