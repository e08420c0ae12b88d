// Cases of pack_*.wgsl.
#include "webgpu/kernel_cases.h"

namespace nonstop {

void AddPackCases(CaseWriter& /*writer*/) {}

}  // namespace nonstop
