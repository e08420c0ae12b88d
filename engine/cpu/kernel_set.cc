#include "cpu/kernel_set.h"

#include "cpu/reference/matmul.h"
#include "cpu/reference/ops.h"

namespace nonstop::cpu {
namespace {

constexpr KernelSet Generic(const char* name, decltype(&MatMul) mat_mul) {
  return {
      name,      mat_mul, RmsNorm, SiluMul,   GeluMul,         Add,           Scale, SoftCap,
      RopeTable, Rope,    StoreKv, Attention, AttendPartially, MergePartials,
  };
}

}  // namespace

constinit const KernelSet kGenericKernels = Generic("generic", MatMul);
constinit const KernelSet kGenericPairKernels = Generic("generic-pairs", MatMulByPairs);

constinit const KernelSet kReferenceKernels = {
    "reference",
    reference::MatMul,
    reference::RmsNorm,
    reference::SiluMul,
    reference::GeluMul,
    reference::Add,
    reference::Scale,
    reference::SoftCap,
    reference::RopeTable,
    reference::Rope,
    reference::StoreKv,
    reference::Attention,
    nullptr,
    nullptr,
};

}  // namespace nonstop::cpu
