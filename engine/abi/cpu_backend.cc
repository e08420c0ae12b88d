#include "abi/module_backend.h"
#include "cpu/backend.h"

namespace nonstop::abi {

Result<std::unique_ptr<BackendFactory>> MakeModuleBackend(NsBackend kind,
                                                          const EngineOptions& options,
                                                          cpu::Pool* pool) {
  if (kind != NsBackend::kCpu && kind != NsBackend::kCpuReference) {
    return MakeError(ErrorCode::kBackendFailed, "Backend (%u) is not part of this module.",
                     static_cast<uint32_t>(kind));
  }
  std::unique_ptr<BackendFactory> factory = std::make_unique<cpu::CpuBackendFactory>(
      pool, cpu::CpuBackendOptions{.uses_reference = options.uses_reference,
                                   .activation = options.activation,
                                   .thread_count = options.thread_count});
  return factory;
}

}  // namespace nonstop::abi
