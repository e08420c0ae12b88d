#include "abi/module_gpu.h"

namespace nonstop::abi {

Gpu* ModuleGpu() { return nullptr; }

}  // namespace nonstop::abi
