// The binary interface of the engine module: what a host (TypeScript worker, Wasmtime, tests)
// calls. One engine per module instance. Nothing here blocks for longer than its stated bound:
// bytes are pushed in, work is done by ns_pump within a budget, results come out as event records.
//
// This header is the schema: tools/abi/generate.mjs reads the structs, enums and functions below
// and writes web/src/wasm/abi.gen.ts. So keep to its grammar: fields are uint32_t, int32_t, float
// or double; pointers are uint32_t offsets in linear memory (so this layer is built for wasm32
// only); one field a line; structs have no padding (doubles first or at a multiple of 8).
//
// Status: functions that return int32_t give a value >= 0, or -(ErrorCode); the sentence is then at
// ns_error_ptr() .. + ns_error_size() until the next call.
#pragma once

#include <cstdint>

namespace nonstop::abi {

inline constexpr uint32_t kAbiVersion = 1;

enum class NsKvType : uint32_t { kF16 = 0, kF32 = 1 };
enum class NsActivationType : uint32_t { kQ8 = 0, kF32 = 1 };
enum class NsBackend : uint32_t { kCpu = 0, kCpuReference = 1, kWebGpu = 2, kNullGpu = 3 };

struct NsEngineOptions {
  uint32_t backend;             // NsBackend
  uint32_t thread_count;        // 1 unless the module has shared memory
  uint32_t context_length;      // tokens of one sequence; 0: the model's own
  uint32_t kv_type;             // NsKvType
  uint32_t activation_type;     // NsActivationType
  uint32_t max_sequence_count;  // conversations decoded together, 1..8; 0: 1
  uint32_t prefill_chunk;       // rows of one prefill step; 0: chosen by the engine
  uint32_t plan_name_ptr;       // UTF-8; empty: "fused"
  uint32_t plan_name_size;
};

struct NsLogitBias {
  int32_t token_id;
  float bias;
};

// Flags of NsRequest.
enum class NsRequestFlag : uint32_t {
  kIgnoreEos = 1,    // end tokens do not end the reply
  kSpecialText = 2,  // control tokens appear in the text
};

struct NsRequest {
  uint32_t prompt_ids_ptr;  // int32_t[prompt_count]
  uint32_t prompt_count;
  uint32_t forced_ids_ptr;  // scoring: these ids are fed instead of sampled ones
  uint32_t forced_count;
  uint32_t max_tokens;    // 0: until the context is full
  uint32_t top_logprobs;  // the best K of the raw logits with every token; 0: none
  uint32_t flags;         // NsRequestFlag bits
  uint32_t stop_ptr;      // stop strings, each a uint32_t length and its bytes, padded to 4
  uint32_t stop_count;
  uint32_t logit_bias_ptr;  // NsLogitBias[logit_bias_count]
  uint32_t logit_bias_count;
  uint32_t seed_low;
  uint32_t seed_high;
  float temperature;
  int32_t top_k;
  float top_p;
  float min_p;
  float repeat_penalty;
  float presence_penalty;
  float frequency_penalty;
  int32_t penalty_last_n;
};

// Event records lie one after the other from ns_events_ptr(); each starts with type and size_bytes
// (the whole record, a multiple of 8). Text and arrays follow the struct in the order of its
// counts.
enum class NsEventType : uint32_t {
  kToken = 1,
  kFinish = 2,
  kError = 3,
  kPrefillProgress = 4,
};

struct NsTokenEvent {
  uint32_t type;
  uint32_t size_bytes;
  uint32_t request_id;
  int32_t token_id;
  uint32_t index;            // 0 for the first generated token
  uint32_t top_count;        // NsTopEntry[top_count] follow
  uint32_t text_size_bytes;  // then the text that became final; may be empty
  uint32_t is_end;           // 1: an end token
};

struct NsTopEntry {
  int32_t token_id;
  float logit;
  float logprob;
};

enum class NsFinishReason : uint32_t { kStop = 0, kLength = 1, kAbort = 2, kError = 3 };

struct NsFinishEvent {
  uint32_t type;
  uint32_t size_bytes;
  uint32_t request_id;
  uint32_t reason;           // NsFinishReason
  uint32_t prompt_count;     // tokens read, those of a shared prefix included
  uint32_t cached_count;     // of which were already in the KV cache
  uint32_t generated_count;  // the end token included
  uint32_t text_size_bytes;  // the last text, held back until now
  double prefill_us;         // from the request's start to its first logits
  double first_token_us;     // from the request's start to its first token
  double decode_us;          // from the first token to the last
};

struct NsErrorEvent {
  uint32_t type;
  uint32_t size_bytes;
  uint32_t request_id;  // 0: the engine as a whole
  uint32_t code;        // ErrorCode
  uint32_t message_size_bytes;
  uint32_t reserved;
};

struct NsPrefillProgressEvent {
  uint32_t type;
  uint32_t size_bytes;
  uint32_t request_id;
  uint32_t done_count;
  uint32_t total_count;
  uint32_t reserved;
};

struct NsStats {
  double weight_bytes;      // packed weights
  double kv_bytes;          // pages held now
  double activation_bytes;  // arenas and scratch
  double memory_bytes;      // linear memory (wasm) or the sum of the above
  double gpu_bytes;
  uint32_t dispatches_per_token;  // 0 on the CPU
  uint32_t barriers_per_token;    // CPU with threads
  uint32_t thread_count;
  uint32_t active_sequence_count;
};

// The Gpu port (port/gpu.h) of the module that computes with WebGPU. The engine numbers buffers,
// pipelines and bind groups and gives the host these structs; the host reports by ns_gpu_….
enum class NsGpuBufferUsage : uint32_t {
  kWeights = 0,
  kActivations = 1,
  kCache = 2,
  kState = 3,
  kParams = 4,
  kReadback = 5,
};
enum class NsGpuAccess : uint32_t { kRead = 0, kReadWrite = 1, kUniform = 2 };
enum class NsGpuFeature : uint32_t { kF16 = 1, kSubgroups = 2, kFallback = 4 };

struct NsGpuAdapter {
  double max_buffer_size_bytes;
  double max_storage_binding_size_bytes;
  uint32_t max_storage_buffers_per_stage;
  uint32_t max_workgroup_storage_bytes;
  uint32_t max_workgroup_invocations;
  uint32_t min_storage_offset_alignment;
  uint32_t max_workgroups_per_dimension;
  uint32_t features;  // NsGpuFeature bits
  uint32_t vendor_ptr;
  uint32_t vendor_size;
  uint32_t architecture_ptr;
  uint32_t architecture_size;
  uint32_t description_ptr;
  uint32_t description_size;
  uint32_t subgroup_min_size;  // lanes; 0: not known
  uint32_t subgroup_max_size;
};

struct NsGpuBinding {
  double offset_bytes;
  double size_bytes;
  uint32_t buffer;
  uint32_t access;  // NsGpuAccess
};

struct NsGpuDispatch {
  uint32_t pipeline;
  uint32_t bind_group;
  uint32_t params_offset_bytes;  // the dynamic offset of a uniform binding
  uint32_t workgroups_x;
  uint32_t workgroups_y;
  uint32_t workgroups_z;
};

struct NsGpuReadback {
  double offset_bytes;
  uint32_t buffer;
  uint32_t size_bytes;
  uint32_t destination_ptr;
  uint32_t reserved;
};

// What ns_pump waits for when it returns.
enum class NsPumpStatus : uint32_t {
  kIdle = 0,      // nothing to do until the next request
  kMoreWork = 1,  // call again
  kWaitGpu = 2,   // a read-back is under way
};

extern "C" {

uint32_t ns_abi_version();
uint32_t ns_alloc(uint32_t size_bytes);  // 0: no memory
void ns_free(uint32_t ptr);
uint32_t ns_error_ptr();
uint32_t ns_error_size();
uint32_t ns_error_code_name(uint32_t code);  // NUL-terminated
uint32_t ns_result_ptr();                    // text or ids of the functions that say so
uint32_t ns_result_size();

int32_t ns_create(uint32_t options_ptr);  // NsEngineOptions; replaces the engine there was
void ns_destroy();

// Loading. Per file, in order: begin, then (reserve, fill, commit)*, then end. The files of a split
// model come one after the other; ns_load_split_count() is known once file 0's header is complete.
int32_t ns_load_begin(uint32_t file_index, double file_size_bytes);  // size -1: unknown
uint32_t ns_load_reserve(uint32_t size_bytes);  // where the next bytes go (<= 1 MiB); 0: no memory
int32_t ns_load_commit(uint32_t size_bytes);    // 0: more bytes wanted, 1: header complete just
                                                // now, 2: this file is complete
int32_t ns_load_end();                          // error if bytes are missing
int32_t ns_load_split_count();                  // 1 for a model in one file
int32_t ns_load_finish();                       // weights complete: checks, then ready
int32_t ns_model_json();                        // result: JSON about the model (after its header)
int32_t ns_metadata_string(uint32_t key_ptr, uint32_t key_size);  // result: text; 1 found, 0 absent
int32_t ns_plan_text(uint32_t plan_name_ptr, uint32_t plan_name_size, uint32_t row_count,
                     uint32_t what);  // result: 0 graph, 1 steps, 2 memory plan

// Text. flags: 1 add BOS/EOS as the model asks, 2 parse special tokens. Result: int32_t ids.
int32_t ns_tokenize(uint32_t text_ptr, uint32_t text_size, uint32_t flags);         // returns count
int32_t ns_detokenize(uint32_t ids_ptr, uint32_t id_count, uint32_t with_special);  // result: text

// Requests. ns_request_start returns an id > 0; its events carry it. Pointers are copied from.
int32_t ns_request_start(uint32_t request_ptr);  // NsRequest
int32_t ns_request_cancel(
    uint32_t request_id);              // its finish event (abort) comes with the next pump
uint32_t ns_pump(uint32_t budget_us);  // NsPumpStatus
uint32_t ns_events_ptr();
uint32_t ns_events_size();
void ns_events_clear();
int32_t ns_stats(uint32_t stats_ptr);  // NsStats
int32_t ns_info_json();                // result: JSON: kernels chosen, reasons, counts

// Threads (shared-memory modules). The host makes one instance per thread over the same memory,
// sets
// __stack_pointer and calls __wasm_init_tls with these blocks, then ns_thread_main, which returns
// only after ns_threads_stop.
uint32_t ns_thread_stack_top(uint32_t thread_index);  // allocated by the main instance; 16-aligned
uint32_t ns_thread_tls(uint32_t thread_index, uint32_t size_bytes, uint32_t alignment);
void ns_thread_main(uint32_t thread_index);  // 1 .. thread_count - 1
uint32_t ns_threads_ready();                 // threads that have arrived
void ns_threads_stop();
void ns_thread_died();  // by the host of a thread that has trapped

// GPU, by the host (the WebGPU module only; the others lack these). The adapter before ns_create.
int32_t ns_gpu_adapter(uint32_t adapter_ptr);  // NsGpuAdapter
void ns_gpu_pipeline_done(uint32_t pipeline, uint32_t is_ready);
void ns_gpu_ticket_done(uint32_t ticket);  // its read-backs lie in linear memory
void ns_gpu_error(uint32_t code, uint32_t message_ptr, uint32_t message_size);  // ErrorCode

}  // extern "C"

// Imports, module "nonstop": now_us() -> double (monotonic), log(level, ptr, size).
// Module "nonstop_gpu" (port/wasm/wasm_gpu.cc), all without a result:
//   create_buffer(buffer, usage, size_bytes: double), destroy_buffer(buffer),
//   create_pipeline(pipeline, name_ptr, name_size, wgsl_ptr, wgsl_size, access_ptr, access_count)
//     with an NsGpuAccess of one byte a binding,
//   create_bind_group(bind_group, pipeline, bindings_ptr, binding_count): NsGpuBinding[],
//   destroy_bind_group(bind_group), upload(buffer, offset_bytes: double, ptr, size_bytes),
//   submit(ticket, dispatches_ptr, dispatch_count, readbacks_ptr, readback_count):
//     NsGpuDispatch[], NsGpuReadback[].

}  // namespace nonstop::abi
