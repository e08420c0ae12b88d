#include "webgpu/sampling.h"

namespace nonstop {
namespace {

// Of equal logits in different groups each group has one, so there must be more groups than top-k
// keeps; and the second dispatch reads them all.
constexpr uint32_t kGroupCount = 4096;
constexpr uint32_t kGroupsPerWorkgroup = 256;

void AddConstants(const SampleOp& op, KernelSpec* spec) {
  using Reply = ReplyLayout;
  AddStateConstants(op.layout.shape, &spec->constants);
  const KernelConstant constants[] = {
      KernelConstant::Uint("VOCABULARY", op.vocabulary_size),
      KernelConstant::Uint("GROUPS", kGroupCount),
      KernelConstant::Uint("STATE_FIRST_ROW", StateLayout::kRows),
      KernelConstant::Uint("STATE_OUTPUTS", StateLayout::kOutputCount),
      KernelConstant::Uint("STATE_STOP", StateLayout::kStop),
      KernelConstant::Uint("STATE_LIVE", StateLayout::kLiveCount),
      KernelConstant::Uint("STATE_ARRIVED", StateLayout::kArrived),
      KernelConstant::Uint("END_TOKENS", StateLayout::kEndTokenCount),
      KernelConstant::Uint("REPLY_INDEX", Reply::kIndex),
      KernelConstant::Uint("REPLY_REMAINING", Reply::kRemaining),
      KernelConstant::Uint("REPLY_SEED", Reply::kSeed),
      KernelConstant::Uint("REPLY_TEMPERATURE", Reply::kTemperature),
      KernelConstant::Uint("REPLY_TOP_K", Reply::kTopK),
      KernelConstant::Uint("REPLY_TOP_P", Reply::kTopP),
      KernelConstant::Uint("REPLY_LOG_MIN_P", Reply::kLogMinP),
      KernelConstant::Uint("REPLY_REPEAT", Reply::kRepeat),
      KernelConstant::Uint("REPLY_PRESENCE", Reply::kPresence),
      KernelConstant::Uint("REPLY_FREQUENCY", Reply::kFrequency),
      KernelConstant::Uint("REPLY_PENALTY_COUNT", Reply::kPenaltyCount),
      KernelConstant::Uint("REPLY_HISTORY_END", Reply::kHistoryEnd),
      KernelConstant::Uint("REPLY_IGNORES_END", Reply::kIgnoresEnd),
      KernelConstant::Uint("REPLY_ENDED", Reply::kEnded),
      KernelConstant::Uint("REPLY_BIAS_COUNT", Reply::kBiasCount),
      KernelConstant::Uint("REPLY_HISTORY", Reply::kHistory),
      KernelConstant::Uint("REPLY_WINDOW", Reply::kWindow),
      KernelConstant::Uint("REPLY_BIAS", Reply::kBias),
      KernelConstant::Uint("REPLY_BIASES", Reply::kMostBiases),
      KernelConstant::Uint("REPLY_WORDS", Reply::kWords),
  };
  spec->constants.insert(spec->constants.end(), std::begin(constants), std::end(constants));
}

KernelCall MakeCall(const SampleOp& op, KernelSpec spec, ActivationPlace in2, ActivationPlace out) {
  AddConstants(op, &spec);
  KernelCall call;
  call.bindings = spec.bindings;
  call.source = ComposeKernel(spec);
  call.in = op.logits;
  call.in2 = in2;
  call.out = out;
  call.params = {op.logits.offset, op.layout.replies(), op.layout.records(),
                 StateLayout::kEndTokens};
  return call;
}

}  // namespace

uint32_t SampleBestWords() { return 2 * kGroupCount; }

KernelCall MakeScanCall(const SampleOp& op) {
  KernelCall call = MakeCall(op,
                             {.name = "sample_scan",
                              .bindings = {KernelBinding::kActivationsIn, KernelBinding::kBestOut,
                                           KernelBinding::kState, KernelBinding::kParams},
                              .files = {"state", "sample_logits", "sample_scan"}},
                             {}, op.best);
  call.workload = {.row_space = RowSpace::kOutputs,
                   .units_per_row = kGroupCount,
                   .units_per_workgroup = kGroupsPerWorkgroup};
  return call;
}

KernelCall MakeChooseCall(const SampleOp& op) {
  KernelCall call = MakeCall(op,
                             {.name = "sample_choose",
                              .bindings = {KernelBinding::kActivationsIn, KernelBinding::kBestIn,
                                           KernelBinding::kStateOut, KernelBinding::kParams},
                              .files = {"sample_logits", "philox", "sample_choose"}},
                             op.best, {});
  call.workload = {.row_space = RowSpace::kOutputs};
  return call;
}

}  // namespace nonstop
