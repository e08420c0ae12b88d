// One step of a plan bound to memory, and the function that runs a part of it.
// A step function is a function of (part, part_count): the parts of one step may run at the same
// time on several threads, write disjoint memory, and give the same bits however many there are.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "cpu/kernel_set.h"
#include "cpu/kv_store.h"
#include "plan/batch.h"
#include "plan/plan.h"

namespace nonstop::cpu {

struct Operand {
  bool is_present = false;
  RowSpace row_space = RowSpace::kTokens;
  uint32_t width = 0;
  float* rows = nullptr;           // activations: (rows, width)
  const Matrix* matrix = nullptr;  // weights: rows [row_begin, row_begin + row_count) of it
  uint32_t row_begin = 0;
  uint32_t row_count = 0;
  const float* vector = nullptr;
  uint32_t rope_table = 0;  // constants: index into RunState::rope_tables

  const float* row(uint32_t index) const { return rows + size_t{index} * width; }
  float* row(uint32_t index) { return rows + size_t{index} * width; }
};

// What all steps of one run share; made by CpuExecutor::Begin.
struct RunState {
  Batch batch;
  std::vector<std::vector<std::byte*>> pages;   // of each sequence
  std::vector<std::vector<float>> rope_tables;  // (tokens, 2 * pair_count)
  KvShape kv;
  // Of an executor that decodes: partial attention of each (row, KV head), for up to kMostRanges
  // ranges of its context, and how many of them are done.
  float* partials = nullptr;
  std::atomic<uint32_t>* ranges_done = nullptr;
};

// Memory of one part, large enough for every step of the plan.
struct Scratch {
  AlignedBuffer prepared[2];  // activations, by ActivationType
  AlignedBuffer row;          // one f32 row
  AlignedBuffer products;     // f32 products of a chunk of rows
  AlignedBuffer attention;
};

// Weight rows multiplied between two looks at the result, which bounds Scratch::products: few when
// many tokens' results must stay in cache, many when one token reads the weights as a stream.
inline constexpr uint32_t kChunkProducts = 8192;
inline constexpr uint32_t kLeastChunkRows = 128;
constexpr uint32_t ChunkRows(uint32_t token_count) {
  const uint32_t rows = kChunkProducts / (token_count == 0 ? 1 : token_count);
  return rows < kLeastChunkRows ? kLeastChunkRows : rows / 8 * 8;
}

struct StepContext;
using StepFunction = void (*)(const StepContext&);

struct BoundStep {
  OpKind op = OpKind::kCount;
  StepFunction run = nullptr;
  const OpAttributes* params = nullptr;
  std::vector<Operand> operands;  // inputs, then outputs
  size_t input_count = 0;
};

struct StepContext {
  const KernelSet& kernels;
  const BoundStep& step;
  const RunState& run;
  ActivationType activation;
  Scratch& scratch;
  uint32_t part;
  uint32_t part_count;

  const Operand& in(size_t slot) const { return step.operands[slot]; }
  Operand out(size_t index = 0) const { return step.operands[step.input_count + index]; }
  const OpAttributes& params() const { return *step.params; }
  uint32_t RowCount(RowSpace space) const {
    return static_cast<uint32_t>(space == RowSpace::kTokens ? run.batch.rows.size()
                                                            : run.batch.output_rows.size());
  }
};

struct PartRange {
  uint32_t begin;
  uint32_t end;
};

// This part's share of [0, count), cut at multiples of `unit`.
PartRange GetPart(const StepContext& context, uint32_t count, uint32_t unit);

// Rows of x [normed by w] as MatMul reads them, prepared once a type into this part's scratch.
class PreparedRows {
 public:
  PreparedRows(const StepContext& context, const Operand& x, const float* norm);
  const Activations& For(const Matrix& matrix);

 private:
  const StepContext& context_;
  const Operand& x_;
  const float* norm_;
  Activations prepared_[2];
  bool is_ready_[2] = {false, false};
};

// y[t, 0 .. end - begin) = rows [begin, end) of the operand's range times the prepared rows.
void Multiply(const StepContext& context, const Operand& w, uint32_t begin, uint32_t end,
              PreparedRows& x, float* y, size_t y_stride);

// How step_attention.cc cuts its work, which decides the scratch it needs.
inline constexpr uint32_t kMostRanges = 32;
uint32_t AttentionTileTokens(uint32_t query_head_count);
uint32_t AttentionRangeTokens(uint32_t token_count);
size_t AttentionPartialFloats(const OpAttributes& params);

StepFunction FindStepFunction(OpKind op);
// Whether the op's function splits its rows among the parts, so that one row is work for one part.
bool SplitsRows(OpKind op);

// step_plain.cc, step_fused.cc, step_attention.cc; FindStepFunction's table.
void RunEmbed(const StepContext&);
void RunMatMul(const StepContext&);
void RunElementwise(const StepContext&);
void RunGroupwise(const StepContext&);
void RunRmsNorm(const StepContext&);
void RunRope(const StepContext&);
void RunKvWrite(const StepContext&);
void RunAttention(const StepContext&);
void RunSelectRows(const StepContext&);
void RunNormMatMul(const StepContext&);
void RunMatMulAdd(const StepContext&);
void RunNormAdd(const StepContext&);
void RunNormGateUp(const StepContext&);
void RunNormQkv(const StepContext&);

}  // namespace nonstop::cpu
