// The sets of CPU kernels behind one table: the vectorised ones and the reference.
#pragma once

#include "cpu/matrix.h"
#include "cpu/ops.h"

namespace nonstop::cpu {

struct KernelSet {
  const char* name;
  decltype(&MatMul) mat_mul;
  decltype(&RmsNorm) rms_norm;
  decltype(&SiluMul) silu_mul;
  decltype(&GeluMul) gelu_mul;
  decltype(&Add) add;
  decltype(&Scale) scale;
  decltype(&SoftCap) soft_cap;
  decltype(&RopeTable) rope_table;
  decltype(&Rope) rope;
  decltype(&StoreKv) store_kv;
  decltype(&Attention) attention;
  decltype(&AttendPartially) attend_partially;  // null: whole attention only
  decltype(&MergePartials) merge_partials;
};

extern const KernelSet kGenericKernels;
extern const KernelSet kGenericPairKernels;  // MatMulByPairs
extern const KernelSet kReferenceKernels;

}  // namespace nonstop::cpu
