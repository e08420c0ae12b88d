#include "cpu/kernel_set.h"

#include "cpu/reference/matmul.h"
#include "cpu/reference/ops.h"

namespace nonstop::cpu {

const KernelSet kGenericKernels = {
    "generic", MatMul,  RmsNorm,   SiluMul, GeluMul, Add,
    Scale,     SoftCap, RopeTable, Rope,    StoreKv, Attention,
};

const KernelSet kReferenceKernels = {
    "reference",          reference::MatMul, reference::RmsNorm, reference::SiluMul,
    reference::GeluMul,   reference::Add,    reference::Scale,   reference::SoftCap,
    reference::RopeTable, reference::Rope,   reference::StoreKv, reference::Attention,
};

}  // namespace nonstop::cpu
