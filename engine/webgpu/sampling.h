// Sampling on the GPU: two dispatches after the head, which choose each row's token and move its
// reply on to it. The oracle is session/sampler.h.
#pragma once

#include "webgpu/kernel_call.h"
#include "webgpu/state.h"

namespace nonstop {

struct SampleOp {
  ActivationPlace logits;  // (rows, vocabulary_size)
  ActivationPlace best;    // SampleBestWords of each row, at offset 0
  uint32_t vocabulary_size = 0;
  StateLayout layout;
};

// What the first dispatch leaves to the second, for each row.
uint32_t SampleBestWords();
KernelCall MakeScanCall(const SampleOp& op);
KernelCall MakeChooseCall(const SampleOp& op);

}  // namespace nonstop
