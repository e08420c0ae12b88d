#include "cpu/executor.h"

#include <algorithm>
#include <memory>

#include "base/format.h"

namespace nonstop::cpu {

Result<std::unique_ptr<Executor>> Executor::Create(const Plan& plan, const WeightStore& weights,
                                                   std::span<const RopeFrequencies> ropes,
                                                   KvStore* kv, const ExecutorOptions& options) {
  auto executor = std::unique_ptr<Executor>(new Executor(plan, options, kv));
  executor->ropes_ = ropes;
  for (uint64_t size_bytes : plan.arena_sizes_bytes) {
    ASSIGN_OR_RETURN(AlignedBuffer arena, AlignedBuffer::Create(size_bytes));
    executor->arenas_.push_back(std::move(arena));
    executor->size_bytes_ += size_bytes;
  }
  TRY(executor->Bind(weights));
  TRY(executor->AllocateScratch());
  TRY(executor->AllocatePartials());
  executor->run_.kv = kv->shape();
  return executor;
}

Status Executor::Bind(const WeightStore& weights) {
  for (const Step& step : plan_.steps) {
    BoundStep bound;
    bound.op = step.op;
    bound.run = FindStepFunction(step.op);
    bound.params = &plan_.params[step.params_index];
    bound.input_count = GetOpInfo(step.op).inputs.size();
    for (const Binding& binding : plan_.BindingsOf(step)) {
      ASSIGN_OR_RETURN(Operand operand, BindOperand(binding, *bound.params, weights));
      bound.operands.push_back(operand);
    }
    steps_.push_back(std::move(bound));
  }
  return {};
}

Result<Operand> Executor::BindOperand(const Binding& binding, const OpAttributes& params,
                                      const WeightStore& weights) {
  Operand operand;
  if (binding.value == kNoValue) return operand;
  const Value& value = plan_.graph.value(binding.value);
  operand.is_present = true;
  operand.row_space = value.rows;
  operand.width = value.width;
  operand.row_begin = value.row_begin;
  operand.row_count = value.row_count;
  if (binding.buffer == BufferKind::kArena) {
    operand.rows = reinterpret_cast<float*>(arenas_[binding.arena].data() + binding.offset_bytes);
  } else if (binding.buffer == BufferKind::kConstant) {
    operand.rope_table = RopeTableIndex(value.name, params.rope_magnitude);
  } else if (binding.buffer == BufferKind::kWeight && value.row_count != 0) {
    operand.matrix = weights.FindMatrix(value.name);
  } else if (binding.buffer == BufferKind::kWeight) {
    const std::vector<float>* vector = weights.FindVector(value.name);
    operand.vector = vector == nullptr ? nullptr : vector->data();
  }
  if (binding.buffer == BufferKind::kWeight && operand.matrix == nullptr &&
      operand.vector == nullptr) {
    return MakeError(ErrorCode::kMissingTensor, "Tensor \"%s\" was not loaded.",
                     value.name.c_str());
  }
  return operand;
}

uint32_t Executor::RopeTableIndex(const std::string& name, float magnitude) {
  for (size_t i = 0; i < rope_sources_.size(); ++i) {
    if (rope_sources_[i].name == name && rope_sources_[i].magnitude == magnitude) {
      return static_cast<uint32_t>(i);
    }
  }
  const auto found = std::find_if(ropes_.begin(), ropes_.end(),
                                  [&](const RopeFrequencies& rope) { return rope.name == name; });
  CHECK(found != ropes_.end());
  rope_sources_.push_back({name, magnitude, &found->values});
  run_.rope_tables.emplace_back();
  return static_cast<uint32_t>(rope_sources_.size() - 1);
}

// The widest prepared row of this type that a product of the plan reads.
uint64_t Executor::ScratchRowBytes(ActivationType type) const {
  uint64_t most = 0;
  for (const BoundStep& step : steps_) {
    for (const Operand& operand : step.operands) {
      if (operand.matrix == nullptr || step.op == OpKind::kEmbed) continue;
      if (ChooseActivation(operand.matrix->dtype, options_.activation) != type) continue;
      most = std::max<uint64_t>(most, ActivationRowSizeBytes(type, operand.matrix->column_count));
    }
  }
  return most;
}

Status Executor::AllocateScratch() {
  const uint32_t rows = std::max(plan_.limits.token_rows, plan_.limits.output_rows);
  uint64_t widest = 0;
  uint32_t head_dim = 0;
  uint64_t attention_floats = 0;
  for (const BoundStep& step : steps_) {
    widest = std::max<uint64_t>(widest, step.operands[0].width);  // what a norm reads
    head_dim = std::max(head_dim, step.params->head_dim);
    if (step.op != OpKind::kAttention) continue;
    const uint32_t group = step.params->head_count / step.params->kv_head_count;
    attention_floats = std::max<uint64_t>(
        attention_floats, AttentionScratchFloats(group, step.params->head_dim,
                                                 std::min(rows, AttentionTileTokens(group)),
                                                 options_.context_length));
  }
  // Gates and ups of a chunk, or one head of every token.
  const uint64_t product_floats = std::max<uint64_t>(
      {2 * kChunkProducts, 2 * uint64_t{rows} * kLeastChunkRows, uint64_t{rows} * head_dim});
  for (uint32_t part = 0; part < options_.part_count; ++part) {
    Scratch scratch;
    const auto allocate = [&](AlignedBuffer* buffer, uint64_t size_bytes) -> Status {
      ASSIGN_OR_RETURN(*buffer, AlignedBuffer::Create(size_bytes));
      size_bytes_ += size_bytes;
      return {};
    };
    for (const ActivationType type : {ActivationType::kQ8, ActivationType::kF32}) {
      TRY(allocate(&scratch.prepared[static_cast<size_t>(type)], rows * ScratchRowBytes(type)));
    }
    TRY(allocate(&scratch.row, widest * sizeof(float)));
    TRY(allocate(&scratch.products, product_floats * sizeof(float)));
    TRY(allocate(&scratch.attention, attention_floats * sizeof(float)));
    scratch_.push_back(std::move(scratch));
  }
  return {};
}

// Only where every row has an output, so that each may be a sequence of its own: a decode plan.
Status Executor::AllocatePartials() {
  if (plan_.limits.output_rows != plan_.limits.token_rows) return {};
  uint64_t head_count = 0;
  uint64_t partial_floats = 0;
  for (const BoundStep& step : steps_) {
    if (step.op != OpKind::kAttention) continue;
    head_count = std::max<uint64_t>(head_count, step.params->kv_head_count);
    partial_floats = std::max<uint64_t>(partial_floats, AttentionPartialFloats(*step.params));
  }
  head_count *= plan_.limits.token_rows;
  const uint64_t partials_size_bytes = head_count * kMostRanges * partial_floats * sizeof(float);
  const uint64_t counts_size_bytes = head_count * sizeof(std::atomic<uint32_t>);
  ASSIGN_OR_RETURN(partials_, AlignedBuffer::Create(partials_size_bytes));
  ASSIGN_OR_RETURN(ranges_done_, AlignedBuffer::Create(counts_size_bytes));
  size_bytes_ += partials_size_bytes + counts_size_bytes;
  run_.partials = reinterpret_cast<float*>(partials_.data());
  run_.ranges_done = reinterpret_cast<std::atomic<uint32_t>*>(ranges_done_.data());
  std::uninitialized_value_construct_n(run_.ranges_done, head_count);
  return {};
}

void Executor::Begin(const Batch& batch) {
  CHECK(batch.rows.size() <= plan_.limits.token_rows);
  CHECK(batch.output_rows.size() <= plan_.limits.output_rows);
  run_.batch = batch;
  run_.pages.resize(batch.page_tables.size());
  for (size_t i = 0; i < batch.page_tables.size(); ++i) {
    run_.pages[i].clear();
    for (uint32_t page : batch.page_tables[i]) run_.pages[i].push_back(kv_.page(page));
  }
  FillRopeTables();
}

void Executor::FillRopeTables() {
  for (size_t i = 0; i < rope_sources_.size(); ++i) {
    const std::vector<float>& frequencies = *rope_sources_[i].frequencies;
    std::vector<float>& table = run_.rope_tables[i];
    const size_t stride = frequencies.size() * 2;
    table.resize(stride * run_.batch.rows.size());
    for (size_t t = 0; t < run_.batch.rows.size(); ++t) {
      options_.kernels->rope_table(run_.batch.rows[t].position, frequencies.data(),
                                   static_cast<uint32_t>(frequencies.size()),
                                   rope_sources_[i].magnitude, table.data() + t * stride);
    }
  }
}

uint32_t Executor::PartCount(size_t step, uint32_t most) const {
  if (!SplitsRows(steps_[step].op)) return most;
  return std::min(most, static_cast<uint32_t>(run_.batch.rows.size()));
}

void Executor::RunStep(size_t step, uint32_t part, uint32_t part_count) {
  DCHECK(part < part_count && part_count <= scratch_.size());
  const BoundStep& bound = steps_[step];
  bound.run({.kernels = *options_.kernels,
             .step = bound,
             .run = run_,
             .activation = options_.activation,
             .scratch = scratch_[part],
             .part = part,
             .part_count = part_count});
}

std::span<const float> Executor::Logits(uint32_t output_row) const {
  const uint32_t width = plan_.graph.value(plan_.logits.value).width;
  const auto* rows = reinterpret_cast<const float*>(arenas_[plan_.logits.arena].data() +
                                                    plan_.logits.offset_bytes);
  return {rows + size_t{output_row} * width, width};
}

}  // namespace nonstop::cpu
