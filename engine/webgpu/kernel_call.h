// A kernel with its operands: what the lowering of one step gives for one dispatch.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <vector>

#include "graph/graph.h"
#include "webgpu/kernel_source.h"
#include "webgpu/product.h"

namespace nonstop {

inline constexpr GpuBufferId kNoBuffer = UINT32_MAX;

// Rows of activations.
struct ActivationPlace {
  GpuBufferId buffer = kNoBuffer;
  uint32_t offset = 0;  // in f32 elements
};

// How many workgroups a run needs: those of `fixed_count` kinds of work, each for
// rows * units_per_row units, of which a workgroup does so many, and `spare_count` more, since the
// units are of that many more sets and no workgroup has units of two. Or, where `team_rows` is not
// 0, `fixed_count` for each team of up to so many rows, or fewer so that all teams have at most
// `most_together`; rows are shared evenly by the fewest teams, two where there are two rows.
struct Workload {
  RowSpace row_space = RowSpace::kTokens;
  uint32_t fixed_count = 1;
  uint32_t spare_count = 0;
  uint32_t units_per_row = 1;
  uint32_t units_per_workgroup = 1;
  uint32_t team_rows = 0;
  uint32_t most_together = UINT32_MAX;

  uint32_t TeamCount(uint32_t row_count) const;
  std::array<uint32_t, 3> Workgroups(uint32_t row_count) const;
};

struct KernelCall {
  KernelSource source;
  std::vector<KernelBinding> bindings;  // of the source, in order
  ActivationPlace in;                   // kActivationsIn, kActivationsIn4
  ActivationPlace in2;
  ActivationPlace out;
  std::vector<GpuBufferId> windows = {};  // kWeights0 and on
  uint32_t layer = 0;                     // whose cache is bound
  std::array<uint32_t, 16> params = {};
  bool is_optional = false;                // the model can do without it
  std::vector<uint32_t> more_params = {};  // after those
  // One of these says how many workgroups a run has.
  Workload workload;
  std::optional<ProductDispatch> product = {};
  std::optional<EmbedDispatch> embed = {};

  // Where an embedding goes, in place of where its plan has it.
  void PutOut(ActivationPlace place);
  RowSpace row_space() const;
  std::array<uint32_t, 3> Workgroups(uint32_t row_count) const;
};

inline uint32_t FloatWord(float value) { return std::bit_cast<uint32_t>(value); }

// Gives each operand of a kernel the binding that it is read through: the written arena where it
// lies in that one (element by element, in place), else one of two read ones.
class OperandReader {
 public:
  OperandReader(KernelCall* call, ActivationPlace out) : call_(*call) { call_.out = out; }

  // Adds "fn NAME(i) -> f32" to `glue`.
  void Read(std::string_view name, ActivationPlace operand, std::string* glue);
  // The bindings of activations, in order.
  std::vector<KernelBinding> bindings() const;

 private:
  KernelCall& call_;
};

}  // namespace nonstop
