#include "port/wasm/wasm_gpu.h"

#include <algorithm>
#include <cstddef>

#include "abi/abi.h"
#include "base/bytes.h"
#include "base/check.h"

#define NS_GPU_IMPORT(name) __attribute__((import_module("nonstop_gpu"), import_name(#name)))

namespace nonstop {
namespace {

extern "C" {
NS_GPU_IMPORT(create_buffer)
void ns_gpu_import_create_buffer(uint32_t buffer, uint32_t usage, double size_bytes);
NS_GPU_IMPORT(destroy_buffer) void ns_gpu_import_destroy_buffer(uint32_t buffer);
NS_GPU_IMPORT(create_pipeline)
void ns_gpu_import_create_pipeline(uint32_t pipeline, const char* name, uint32_t name_size,
                                   const char* wgsl, uint32_t wgsl_size, const GpuAccess* access,
                                   uint32_t access_count, uint32_t is_optional);
NS_GPU_IMPORT(create_bind_group)
void ns_gpu_import_create_bind_group(uint32_t bind_group, uint32_t pipeline,
                                     const abi::NsGpuBinding* bindings, uint32_t binding_count);
NS_GPU_IMPORT(destroy_bind_group) void ns_gpu_import_destroy_bind_group(uint32_t bind_group);
NS_GPU_IMPORT(upload)
void ns_gpu_import_upload(uint32_t buffer, double offset_bytes, const std::byte* bytes,
                          uint32_t size_bytes);
NS_GPU_IMPORT(submit)
void ns_gpu_import_submit(uint32_t ticket, const GpuDispatch* dispatches, uint32_t dispatch_count,
                          const abi::NsGpuReadback* readbacks, uint32_t readback_count);
}

// The host reads dispatches and accesses where they lie, by the structs of abi.h.
static_assert(sizeof(GpuDispatch) == sizeof(abi::NsGpuDispatch));
static_assert(offsetof(GpuDispatch, bind_group) == offsetof(abi::NsGpuDispatch, bind_group));
static_assert(offsetof(GpuDispatch, params_offset_bytes) ==
              offsetof(abi::NsGpuDispatch, params_offset_bytes));
static_assert(offsetof(GpuDispatch, workgroups) == offsetof(abi::NsGpuDispatch, workgroups_x));
static_assert(static_cast<uint32_t>(GpuAccess::kUniform) ==
              static_cast<uint32_t>(abi::NsGpuAccess::kUniform));
static_assert(static_cast<uint32_t>(GpuBufferUsage::kReadback) ==
              static_cast<uint32_t>(abi::NsGpuBufferUsage::kReadback));

constexpr uint64_t kPageBytes = 4096;

uint32_t Count(size_t count) { return static_cast<uint32_t>(count); }

}  // namespace

uint32_t WasmGpu::Ids::Take() {
  if (free.empty()) return count++;
  const uint32_t id = free.back();
  free.pop_back();
  return id;
}

Result<GpuBufferId> WasmGpu::CreateBuffer(GpuBufferUsage usage, uint64_t size_bytes) {
  TRY(status());
  const uint64_t limit = adapter_.limits.max_buffer_size_bytes;
  if (size_bytes == 0 || size_bytes > limit || RoundUp(size_bytes, kPageBytes) > limit) {
    return MakeError(
        ErrorCode::kOutOfMemory, "A GPU buffer of (%llu) bytes is past the device's limit (%llu).",
        static_cast<unsigned long long>(size_bytes), static_cast<unsigned long long>(limit));
  }
  const uint64_t size = RoundUp(size_bytes, kPageBytes);
  const GpuBufferId buffer = buffer_ids_.Take();
  if (buffer == buffer_sizes_bytes_.size()) buffer_sizes_bytes_.push_back(0);
  buffer_sizes_bytes_[buffer] = size;
  ns_gpu_import_create_buffer(buffer, static_cast<uint32_t>(usage), static_cast<double>(size));
  return buffer;
}

void WasmGpu::DestroyBuffer(GpuBufferId buffer) {
  CHECK(buffer < buffer_sizes_bytes_.size() && buffer_sizes_bytes_[buffer] != 0);
  buffer_sizes_bytes_[buffer] = 0;
  buffer_ids_.free.push_back(buffer);
  ns_gpu_import_destroy_buffer(buffer);
}

Result<GpuPipelineId> WasmGpu::CreatePipeline(const GpuPipelineSource& source) {
  TRY(status());
  const auto pipeline = static_cast<GpuPipelineId>(pipelines_.size());
  pipelines_.push_back(GpuPipelineState::kPending);
  ns_gpu_import_create_pipeline(pipeline, source.name.data(), Count(source.name.size()),
                                source.wgsl.data(), Count(source.wgsl.size()),
                                source.bindings.data(), Count(source.bindings.size()),
                                source.is_optional ? 1 : 0);
  return pipeline;
}

GpuPipelineState WasmGpu::pipeline_state(GpuPipelineId pipeline) const {
  CHECK(pipeline < pipelines_.size());
  return pipelines_[pipeline];
}

Status WasmGpu::CheckInside(const char* what, GpuBufferId buffer, uint64_t offset_bytes,
                            uint64_t size_bytes) const {
  const uint64_t size = buffer < buffer_sizes_bytes_.size() ? buffer_sizes_bytes_[buffer] : 0;
  if (offset_bytes <= size && size_bytes <= size - offset_bytes) return {};
  return MakeError(ErrorCode::kInternal, "%s (%llu bytes at %llu) leaves GPU buffer (%u).", what,
                   static_cast<unsigned long long>(size_bytes),
                   static_cast<unsigned long long>(offset_bytes), buffer);
}

Result<GpuBindGroupId> WasmGpu::CreateBindGroup(GpuPipelineId pipeline,
                                                std::span<const GpuBufferBinding> bindings) {
  TRY(status());
  CHECK(pipeline < pipelines_.size());
  std::vector<abi::NsGpuBinding> rows;
  rows.reserve(bindings.size());
  for (const GpuBufferBinding& binding : bindings) {
    TRY(CheckInside("A binding", binding.buffer, binding.offset_bytes, binding.size_bytes));
    rows.push_back({.offset_bytes = static_cast<double>(binding.offset_bytes),
                    .size_bytes = static_cast<double>(binding.size_bytes),
                    .buffer = binding.buffer,
                    .access = static_cast<uint32_t>(binding.access)});
  }
  const GpuBindGroupId bind_group = bind_group_ids_.Take();
  ns_gpu_import_create_bind_group(bind_group, pipeline, rows.data(), Count(rows.size()));
  return bind_group;
}

void WasmGpu::DestroyBindGroup(GpuBindGroupId bind_group) {
  CHECK(bind_group < bind_group_ids_.count);
  bind_group_ids_.free.push_back(bind_group);
  ns_gpu_import_destroy_bind_group(bind_group);
}

Status WasmGpu::Upload(GpuBufferId buffer, uint64_t offset_bytes,
                       std::span<const std::byte> bytes) {
  TRY(status());
  TRY(CheckInside("An upload", buffer, offset_bytes, bytes.size()));
  if (offset_bytes % 4 != 0 || bytes.size() % 4 != 0) {
    return MakeError(ErrorCode::kInternal, "An upload (%zu bytes at %llu) is not in whole words.",
                     bytes.size(), static_cast<unsigned long long>(offset_bytes));
  }
  ns_gpu_import_upload(buffer, static_cast<double>(offset_bytes), bytes.data(),
                       Count(bytes.size()));
  return {};
}

Result<GpuTicket> WasmGpu::Submit(std::span<const GpuDispatch> dispatches,
                                  std::span<const GpuReadback> readbacks) {
  TRY(status());
  std::vector<abi::NsGpuReadback> rows;
  rows.reserve(readbacks.size());
  for (const GpuReadback& readback : readbacks) {
    TRY(CheckInside("A read-back", readback.buffer, readback.offset_bytes, readback.size_bytes));
    CHECK(readback.offset_bytes % 4 == 0 && readback.size_bytes % 4 == 0);
    rows.push_back({.offset_bytes = static_cast<double>(readback.offset_bytes),
                    .buffer = readback.buffer,
                    .size_bytes = readback.size_bytes,
                    .destination_ptr =
                        static_cast<uint32_t>(reinterpret_cast<uintptr_t>(readback.destination)),
                    .reserved = 0});
  }
  ns_gpu_import_submit(++last_submitted_, dispatches.data(), Count(dispatches.size()), rows.data(),
                       Count(rows.size()));
  return last_submitted_;
}

Status WasmGpu::status() const {
  if (!has_failed_) return {};
  return Error(error_);
}

void WasmGpu::ReportPipeline(GpuPipelineId pipeline, bool is_ready) {
  if (pipeline >= pipelines_.size()) return;
  pipelines_[pipeline] = is_ready ? GpuPipelineState::kReady : GpuPipelineState::kFailed;
}

void WasmGpu::ReportTicket(GpuTicket ticket) {
  last_done_ = std::max(last_done_, std::min(ticket, last_submitted_));
}

void WasmGpu::ReportError(Error error) {
  if (has_failed_) return;
  has_failed_ = true;
  error_ = std::move(error);
}

}  // namespace nonstop
