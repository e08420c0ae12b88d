#include "webgpu/kernel_call.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/check.h"
#include "base/format.h"

namespace nonstop {

uint32_t Workload::TeamCount(uint32_t row_count) const {
  const uint32_t fewest = std::max(DivideRoundUp(row_count, team_rows), std::min(row_count, 2u));
  return DivideRoundUp(row_count, DivideRoundUp(row_count, fewest));
}

std::array<uint32_t, 3> Workload::Workgroups(uint32_t row_count) const {
  if (team_rows > 0) {
    const uint32_t teams = TeamCount(row_count);
    return SpreadWorkgroups(uint64_t{teams} * std::min(fixed_count, most_together / teams));
  }
  const uint64_t units = uint64_t{row_count} * units_per_row;
  const uint64_t workgroups = DivideRoundUp<uint64_t>(units, units_per_workgroup) + spare_count;
  return SpreadWorkgroups(fixed_count * workgroups);
}

void KernelCall::PutOut(ActivationPlace place) {
  out = place;
  params[0] = place.offset;
}

RowSpace KernelCall::row_space() const {
  if (embed) return RowSpace::kTokens;
  return product ? product->shape.row_space : workload.row_space;
}

std::array<uint32_t, 3> KernelCall::Workgroups(uint32_t row_count) const {
  if (embed) return embed->Workgroups(row_count);
  return product ? product->Workgroups(row_count) : workload.Workgroups(row_count);
}

void OperandReader::Read(std::string_view name, ActivationPlace operand, std::string* glue) {
  const char* reader = "load_act2";
  if (operand.buffer == call_.out.buffer) {
    reader = "load_out";
  } else if (call_.in.buffer == kNoBuffer || call_.in.buffer == operand.buffer) {
    call_.in = operand;
    reader = "load_act";
  } else {
    CHECK(call_.in2.buffer == kNoBuffer || call_.in2.buffer == operand.buffer);
    call_.in2 = operand;
  }
  AppendFormat(*glue, "fn %.*s(i: u32) -> f32 { return %s(i); }\n", static_cast<int>(name.size()),
               name.data(), reader);
}

std::vector<KernelBinding> OperandReader::bindings() const {
  std::vector<KernelBinding> bindings;
  if (call_.in.buffer != kNoBuffer) bindings.push_back(KernelBinding::kActivationsIn);
  if (call_.in2.buffer != kNoBuffer) bindings.push_back(KernelBinding::kActivationsIn2);
  if (call_.out.buffer != kNoBuffer) bindings.push_back(KernelBinding::kActivationsOut);
  return bindings;
}

}  // namespace nonstop
