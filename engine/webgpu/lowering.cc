#include "webgpu/lowering.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/check.h"
#include "webgpu/lower_step.h"
#include "webgpu/resident.h"
#include "webgpu/sampling.h"

namespace nonstop {
namespace {

bool IsCache(KernelBinding binding) {
  return binding == KernelBinding::kCacheIn4 || binding == KernelBinding::kCacheOut ||
         binding == KernelBinding::kCacheOut4;
}

}  // namespace

bool GpuProgram::Group::HasCache() const {
  return std::any_of(roles.begin(), roles.end(), IsCache);
}

Result<std::unique_ptr<GpuProgram>> GpuProgram::Create(const GpuModel& model, const Plan& plan,
                                                       const GpuArenas& arenas, Phase phase,
                                                       uint32_t row_limit, PipelineSet* pipelines,
                                                       std::vector<uint32_t>* params) {
  auto program = std::unique_ptr<GpuProgram>(new GpuProgram(model, arenas, row_limit));
  StepLowering lowering(model, plan, arenas, phase, row_limit);
  for (const Step& step : plan.steps) {
    ASSIGN_OR_RETURN(std::vector<KernelCall> calls, lowering.Lower(step));
    for (KernelCall& call : calls) TRY(program->AddCall(std::move(call), pipelines, params));
  }
  if (phase == Phase::kDecode) TRY(program->AddSampling(plan, pipelines, params));
  return program;
}

Result<std::unique_ptr<GpuProgram>> GpuProgram::CreateResident(const GpuModel& model,
                                                               const Plan& plan, GpuArenas* arenas,
                                                               uint32_t row_limit,
                                                               PipelineSet* pipelines,
                                                               std::vector<uint32_t>* params) {
  ASSIGN_OR_RETURN(std::optional<ResidentCall> resident,
                   LowerResident(model, plan, row_limit, arenas));
  if (!resident) return std::unique_ptr<GpuProgram>();
  auto program = std::unique_ptr<GpuProgram>(new GpuProgram(model, *arenas, row_limit));
  StepLowering lowering(model, plan, *arenas, Phase::kDecode, row_limit);
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const bool is_resident = i >= resident->first_step && i < resident->end_step;
    if (is_resident && i > resident->first_step) continue;
    std::vector<KernelCall> calls;
    if (is_resident) {
      calls.push_back(std::move(resident->call));
    } else {
      ASSIGN_OR_RETURN(calls, lowering.Lower(plan.steps[i]));
    }
    for (KernelCall& call : calls) {
      if (call.embed) call.PutOut(resident->x);  // where the layers read and leave it
      TRY(program->AddCall(std::move(call), pipelines, params));
    }
  }
  TRY(program->AddSampling(plan, pipelines, params));
  return program;
}

Status GpuProgram::AddSampling(const Plan& plan, PipelineSet* pipelines,
                               std::vector<uint32_t>* params) {
  const Binding& logits = plan.logits;
  const SampleOp op = {.logits = {arenas_.arena(logits.arena),
                                  static_cast<uint32_t>(logits.offset_bytes / sizeof(float))},
                       .best = {arenas_.best(), 0},
                       .vocabulary_size = plan.graph.value(logits.value).width,
                       .layout = model_.layout};
  for (KernelCall call : {MakeScanCall(op), MakeChooseCall(op)}) {
    TRY(AddCall(std::move(call), pipelines, params));
    calls_.back().is_sampling = true;
  }
  return {};
}

GpuProgram::~GpuProgram() {
  for (const Group& group : groups_) {
    if (group.id != kNoBuffer) model_.gpu->DestroyBindGroup(group.id);
  }
}

Status GpuProgram::AddCall(KernelCall kernel, PipelineSet* pipelines,
                           std::vector<uint32_t>* params) {
  Call call;
  ASSIGN_OR_RETURN(call.pipeline, pipelines->Get(kernel.source, kernel.is_optional));
  call.group = FindGroup(call.pipeline, kernel);
  call.params_offset_bytes = static_cast<uint32_t>(params->size() * sizeof(uint32_t));
  params->insert(params->end(), kernel.params.begin(), kernel.params.end());
  params->insert(params->end(), kernel.more_params.begin(), kernel.more_params.end());
  params->resize(RoundUp<size_t>(params->size(), kParamsStride / sizeof(uint32_t)));
  kernel.source = {};
  call.kernel = std::move(kernel);
  calls_.push_back(std::move(call));
  return {};
}

// What a binding of the kernel is bound to; kNoBuffer: the cache, whose buffers change.
GpuBufferId GpuProgram::BufferOf(const KernelCall& kernel, size_t binding) const {
  switch (kernel.bindings[binding]) {
    case KernelBinding::kActivationsIn:
    case KernelBinding::kActivationsIn4:
      return kernel.in.buffer;
    case KernelBinding::kActivationsIn2:
    case KernelBinding::kBestIn:
      return kernel.in2.buffer;
    case KernelBinding::kActivationsOut:
    case KernelBinding::kBestOut:
      return kernel.out.buffer;
    case KernelBinding::kWeights0:
      return kernel.windows[0];
    case KernelBinding::kWeights1:
      return kernel.windows[1];
    case KernelBinding::kWeights2:
      return kernel.windows[2];
    case KernelBinding::kVectors:
      return model_.weights->vectors();
    case KernelBinding::kRelay:
      return arenas_.relay();
    case KernelBinding::kState:
    case KernelBinding::kStateOut:
      return model_.state;
    default:
      return kNoBuffer;
  }
}

uint32_t GpuProgram::FindGroup(GpuPipelineId pipeline, const KernelCall& kernel) {
  Group group;
  group.pipeline = pipeline;
  group.roles = kernel.bindings;
  group.params_bytes =
      static_cast<uint32_t>((kernel.params.size() + kernel.more_params.size()) * sizeof(uint32_t));
  for (size_t i = 0; i < kernel.bindings.size(); ++i) {
    group.buffers.push_back(BufferOf(kernel, i));
  }
  if (group.HasCache()) group.cache_group = model_.cache->GroupOf(kernel.layer);
  for (size_t i = 0; i < groups_.size(); ++i) {
    if (groups_[i].pipeline == pipeline && groups_[i].buffers == group.buffers &&
        groups_[i].cache_group == group.cache_group) {
      return static_cast<uint32_t>(i);
    }
  }
  groups_.push_back(std::move(group));
  return static_cast<uint32_t>(groups_.size() - 1);
}

Status GpuProgram::Make(Group* group, GpuBufferId params) {
  std::vector<GpuBufferBinding> bindings;
  for (size_t i = 0; i < group->roles.size(); ++i) {
    const KernelBinding role = group->roles[i];
    const GpuAccess access = AccessOf(role);
    const GpuBufferId buffer = group->buffers[i];
    if (IsCache(role)) {
      bindings.push_back(model_.cache->Bind(group->cache_group, access));
    } else if (role == KernelBinding::kParams) {
      bindings.push_back({params, access, 0, group->params_bytes});
    } else if (buffer == model_.state) {
      bindings.push_back({buffer, access, 0, model_.layout.word_count() * sizeof(uint32_t)});
    } else if (role == KernelBinding::kVectors) {
      bindings.push_back({buffer, access, 0, model_.weights->vectors_size_bytes()});
    } else if (role >= KernelBinding::kWeights0 && role <= KernelBinding::kWeights2) {
      bindings.push_back({buffer, access, 0, model_.weights->WindowSizeBytes(buffer)});
    } else {
      bindings.push_back({buffer, access, 0, arenas_.SizeBytesOf(buffer)});
    }
  }
  if (group->id != kNoBuffer) model_.gpu->DestroyBindGroup(group->id);
  group->id = kNoBuffer;
  ASSIGN_OR_RETURN(group->id, model_.gpu->CreateBindGroup(group->pipeline, bindings));
  return {};
}

Status GpuProgram::Bind(GpuBufferId params) {
  for (Group& group : groups_) {
    if (!group.HasCache()) TRY(Make(&group, params));
  }
  return {};
}

Status GpuProgram::BindCache(GpuBufferId params) {
  for (Group& group : groups_) {
    if (group.HasCache()) TRY(Make(&group, params));
  }
  row_count_ = output_count_ = 0;
  return {};
}

void GpuProgram::SetResidentWorkgroups(uint32_t of_team, uint32_t most_together) {
  for (Call& call : calls_) {
    Workload& workload = call.kernel.workload;
    if (workload.team_rows == 0) continue;
    workload.fixed_count = of_team;
    workload.most_together = most_together;
  }
  row_count_ = 0;
}

bool GpuProgram::HasPipelines() const {
  return std::all_of(calls_.begin(), calls_.end(), [this](const Call& call) {
    return model_.gpu->pipeline_state(call.pipeline) == GpuPipelineState::kReady;
  });
}

std::span<const GpuDispatch> GpuProgram::Dispatches(uint32_t row_count, uint32_t output_count,
                                                    bool chooses) {
  CHECK(row_count > 0 && row_count <= row_limit_);
  if (row_count == row_count_ && output_count == output_count_ && chooses == chooses_) {
    return dispatches_;
  }
  dispatches_.clear();
  for (const Call& call : calls_) {
    if (call.is_sampling && !chooses) continue;
    const bool is_of_outputs = call.kernel.row_space() == RowSpace::kOutputs;
    const uint32_t rows = is_of_outputs ? output_count : row_count;
    if (rows == 0) continue;  // no logits are wanted
    const auto workgroups = call.kernel.Workgroups(rows);
    dispatches_.push_back({.pipeline = call.pipeline,
                           .bind_group = groups_[call.group].id,
                           .params_offset_bytes = call.params_offset_bytes,
                           .workgroups = {workgroups[0], workgroups[1], workgroups[2]}});
  }
  row_count_ = row_count;
  output_count_ = output_count;
  chooses_ = chooses;
  return dispatches_;
}

}  // namespace nonstop
