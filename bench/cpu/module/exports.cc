// The exported functions; those that prepare a job answer 0 when memory is short or the tensor type
// has no kernel. Threads are started as the engine's are (web/src/wasm/threads.ts): the
// main instance gives each a stack and a thread-local block, then they wait in the pool.
#include <algorithm>
#include <memory>
#include <utility>

#include "base/bytes.h"
#include "cpu/pool.h"
#include "jobs.h"

#define BENCH_EXPORT(name) __attribute__((export_name(#name)))

namespace nonstop::bench {
namespace {

constexpr uint32_t kMaxThreads = 64;
constexpr uint32_t kStackBytes = 256u << 10;

struct Thread {
  AlignedBuffer stack;
  AlignedBuffer tls;
};

struct Module {
  cpu::Pool pool;
  Thread threads[kMaxThreads];
  std::unique_ptr<Job> job;
};

Module& GetModule() {
  static Module* module = new Module();
  return *module;
}

uint32_t Allocate(AlignedBuffer* buffer, uint32_t size_bytes) {
  auto made = AlignedBuffer::Create(size_bytes);
  if (!made.ok()) return 0;
  *buffer = std::move(*made);
  return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(buffer->data()));
}

// The old job is gone before the new one is made: both may not fit.
template <class Make>
uint32_t Replace(Make make) {
  Module& module = GetModule();
  module.job.reset();
  module.job = make();
  return module.job == nullptr ? 0 : 1;
}

}  // namespace

extern "C" {

BENCH_EXPORT(bench_prepare_read) uint32_t bench_prepare_read(double size_bytes) {
  return Replace([&] { return MakeReadJob(static_cast<uint64_t>(size_bytes)); });
}

// type_id: the file's number of the tensor type.
BENCH_EXPORT(bench_prepare_matmul)
uint32_t bench_prepare_matmul(uint32_t type_id, uint32_t row_count, uint32_t column_count,
                              uint32_t token_count, double size_bytes) {
  const DTypeInfo* info = FindDType(type_id);
  if (info == nullptr || !info->is_computed || column_count % info->block_length != 0) return 0;
  return Replace([&] {
    return MakeMatMulJob(info->dtype, {row_count, column_count, token_count},
                         static_cast<uint64_t>(size_bytes));
  });
}

BENCH_EXPORT(bench_prepare_attention)
uint32_t bench_prepare_attention(uint32_t layer_count, uint32_t query_head_count,
                                 uint32_t kv_head_count, uint32_t head_dim, uint32_t context_length,
                                 uint32_t token_count) {
  return Replace([&] {
    return MakeAttentionJob(
        {layer_count, query_head_count, kv_head_count, head_dim, context_length, token_count});
  });
}

BENCH_EXPORT(bench_read_bytes) double bench_read_bytes() { return GetModule().job->read_bytes; }
BENCH_EXPORT(bench_operations) double bench_operations() { return GetModule().job->operations; }

// Runs the job `pass_count` times on `thread_count` threads.
BENCH_EXPORT(bench_run) void bench_run(uint32_t pass_count, uint32_t thread_count) {
  struct Run {
    Job* job;
    uint32_t part_count;
  } run = {GetModule().job.get(), std::clamp(thread_count, 1u, kMaxThreads)};
  for (uint32_t pass = 0; pass < pass_count; ++pass) {
    GetModule().pool.Run(
        [](void* context, uint32_t part) {
          const auto* self = static_cast<const Run*>(context);
          self->job->RunPart(part, self->part_count);
        },
        &run, run.part_count);
  }
}

BENCH_EXPORT(bench_thread_stack_top) uint32_t bench_thread_stack_top(uint32_t index) {
  if (index >= kMaxThreads) return 0;
  const uint32_t base = Allocate(&GetModule().threads[index].stack, kStackBytes);
  return base == 0 ? 0 : base + kStackBytes;
}
BENCH_EXPORT(bench_thread_tls)
uint32_t bench_thread_tls(uint32_t index, uint32_t size_bytes) {
  if (index >= kMaxThreads) return 0;
  return Allocate(&GetModule().threads[index].tls, std::max(size_bytes, 1u));
}
BENCH_EXPORT(bench_thread_main) void bench_thread_main() { GetModule().pool.WorkerLoop(); }
BENCH_EXPORT(bench_threads_ready) uint32_t bench_threads_ready() {
  return GetModule().pool.worker_count();
}
BENCH_EXPORT(bench_thread_died) void bench_thread_died() { GetModule().pool.ReportDeath(); }

}  // extern "C"

}  // namespace nonstop::bench
