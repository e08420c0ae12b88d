// The GPU of this module, or null: of the builds, one links gpu_exports.cc, the others no_gpu.cc.
#pragma once

#include "port/gpu.h"

namespace nonstop::abi {

Gpu* ModuleGpu();

}  // namespace nonstop::abi
