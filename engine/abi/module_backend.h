// What computes in this module: of the builds, one links gpu_exports.cc, the others cpu_backend.cc.
#pragma once

#include <memory>

#include "abi/abi.h"
#include "cpu/pool.h"
#include "session/engine.h"

namespace nonstop::abi {

// kBackendFailed where the module has no such backend. `pool` must outlive what is made.
Result<std::unique_ptr<BackendFactory>> MakeModuleBackend(NsBackend kind,
                                                          const EngineOptions& options,
                                                          cpu::Pool* pool);

}  // namespace nonstop::abi
