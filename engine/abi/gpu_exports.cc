// The WebGPU module's GPU, and the functions by which the host reports what became of its work.
#include "abi/abi.h"
#include "abi/linear_memory.h"
#include "abi/module_backend.h"
#include "port/wasm/wasm_gpu.h"
#include "webgpu/backend.h"

namespace nonstop::abi {
namespace {

WasmGpu& GetGpu() {
  static WasmGpu* gpu = new WasmGpu();  // never destroyed: reports may come at any time
  return *gpu;
}

uint64_t ToBytes(double size) {
  constexpr double kMost = 9007199254740992.0;  // 2^53
  return size >= 0 && size <= kMost ? static_cast<uint64_t>(size) : 0;
}

bool Has(uint32_t features, NsGpuFeature feature) {
  return (features & static_cast<uint32_t>(feature)) != 0;
}

Result<GpuAdapter> ReadAdapter(uint32_t adapter_ptr) {
  ASSIGN_OR_RETURN(const auto views, View<NsGpuAdapter>(adapter_ptr, 1, "adapter"));
  const NsGpuAdapter given = views[0];
  GpuAdapter adapter;
  ASSIGN_OR_RETURN(adapter.vendor, Text(given.vendor_ptr, given.vendor_size, "vendor"));
  ASSIGN_OR_RETURN(adapter.architecture,
                   Text(given.architecture_ptr, given.architecture_size, "architecture"));
  ASSIGN_OR_RETURN(adapter.description,
                   Text(given.description_ptr, given.description_size, "description"));
  adapter.limits = {.max_buffer_size_bytes = ToBytes(given.max_buffer_size_bytes),
                    .max_storage_binding_size_bytes = ToBytes(given.max_storage_binding_size_bytes),
                    .max_storage_buffers_per_stage = given.max_storage_buffers_per_stage,
                    .max_workgroup_storage_bytes = given.max_workgroup_storage_bytes,
                    .max_workgroup_invocations = given.max_workgroup_invocations,
                    .min_storage_offset_alignment = given.min_storage_offset_alignment,
                    .max_workgroups_per_dimension = given.max_workgroups_per_dimension};
  if (adapter.limits.min_storage_offset_alignment == 0) {
    return MakeError(ErrorCode::kInvalidArgument, "The adapter's offset alignment is (0).");
  }
  adapter.has_f16 = Has(given.features, NsGpuFeature::kF16);
  adapter.has_subgroups = Has(given.features, NsGpuFeature::kSubgroups);
  if (given.subgroup_min_size != 0) adapter.subgroup_min_size = given.subgroup_min_size;
  adapter.is_fallback = Has(given.features, NsGpuFeature::kFallback);
  return adapter;
}

}  // namespace

Result<std::unique_ptr<BackendFactory>> MakeModuleBackend(NsBackend kind, const EngineOptions&,
                                                          cpu::Pool*) {
  if (kind != NsBackend::kWebGpu) {
    return MakeError(ErrorCode::kBackendFailed, "Backend (%u) is not part of this module.",
                     static_cast<uint32_t>(kind));
  }
  std::unique_ptr<BackendFactory> factory = std::make_unique<WebGpuBackendFactory>(&GetGpu());
  return factory;
}

extern "C" {

NS_EXPORT(ns_gpu_adapter) int32_t ns_gpu_adapter(uint32_t adapter_ptr) {
  Result<GpuAdapter> adapter = ReadAdapter(adapter_ptr);
  if (!adapter.ok()) return -static_cast<int32_t>(adapter.error().code);
  GetGpu().SetAdapter(std::move(*adapter));
  return 0;
}
NS_EXPORT(ns_gpu_pipeline_done)
void ns_gpu_pipeline_done(uint32_t pipeline, uint32_t is_ready) {
  GetGpu().ReportPipeline(pipeline, is_ready != 0);
}
NS_EXPORT(ns_gpu_ticket_done) void ns_gpu_ticket_done(uint32_t ticket) {
  GetGpu().ReportTicket(ticket);
}
NS_EXPORT(ns_gpu_error)
void ns_gpu_error(uint32_t code, uint32_t message_ptr, uint32_t message_size) {
  Result<std::string> message = Text(message_ptr, message_size, "message");
  GetGpu().ReportError(
      {static_cast<ErrorCode>(code), message.ok() ? std::move(*message) : std::string()});
}

}  // extern "C"

}  // namespace nonstop::abi
