// From a plan to what the GPU replays: for each step its kernels, pipelines (one for each text),
// bind groups (one for each set of buffers), parameters that never change, and a list of dispatches
// whose workgroups follow the number of rows.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "model/model.h"
#include "webgpu/gpu_model.h"

namespace nonstop {

// A plan lowered for runs of up to `row_limit` rows.
class GpuProgram {
 public:
  static constexpr uint32_t kParamsStride = 256;  // WebGPU's offset alignment

  // All that is passed must outlive the program. Its parameters are added to `params`, those of
  // each call kParamsStride bytes after the last; they must be uploaded before a run.
  static Result<std::unique_ptr<GpuProgram>> Create(const GpuModel& model, const Plan& plan,
                                                    const GpuArenas& arenas, Phase phase,
                                                    uint32_t row_limit, PipelineSet* pipelines,
                                                    std::vector<uint32_t>* params);
  // With the layers in one dispatch (resident.h). Null where that is not possible.
  static Result<std::unique_ptr<GpuProgram>> CreateResident(const GpuModel& model, const Plan& plan,
                                                            GpuArenas* arenas, uint32_t row_limit,
                                                            PipelineSet* pipelines,
                                                            std::vector<uint32_t>* params);
  GpuProgram(const GpuProgram&) = delete;
  GpuProgram& operator=(const GpuProgram&) = delete;
  ~GpuProgram();

  uint32_t row_limit() const { return row_limit_; }
  // Makes the bind groups without the cache, once; and those with it, each time that it has grown.
  Status Bind(GpuBufferId params);
  Status BindCache(GpuBufferId params);

  // The dispatches of a run, with those that choose the next tokens if `chooses` (of decode
  // programs only); valid until the next call.
  std::span<const GpuDispatch> Dispatches(uint32_t row_count, uint32_t output_count, bool chooses);
  // How many workgroups a team gets, and all teams at most.
  void SetResidentWorkgroups(uint32_t of_team, uint32_t most_together);
  bool HasPipelines() const;  // all of them, ready
  size_t dispatch_count() const { return calls_.size(); }
  size_t bind_group_count() const { return groups_.size(); }

 private:
  struct Call {
    GpuPipelineId pipeline = 0;
    uint32_t group = 0;  // index into groups_
    uint32_t params_offset_bytes = 0;
    KernelCall kernel;  // without its text
    bool is_sampling = false;
  };
  struct Group {
    GpuPipelineId pipeline = 0;
    std::vector<KernelBinding> roles;
    std::vector<GpuBufferId> buffers;  // kNoBuffer: the cache's
    uint32_t cache_group = 0;
    uint32_t params_bytes = 0;
    GpuBindGroupId id = kNoBuffer;

    bool HasCache() const;
  };

  GpuProgram(const GpuModel& model, const GpuArenas& arenas, uint32_t row_limit)
      : model_(model), arenas_(arenas), row_limit_(row_limit) {}

  Status AddCall(KernelCall kernel, PipelineSet* pipelines, std::vector<uint32_t>* params);
  Status AddSampling(const Plan& plan, PipelineSet* pipelines, std::vector<uint32_t>* params);
  uint32_t FindGroup(GpuPipelineId pipeline, const KernelCall& kernel);
  GpuBufferId BufferOf(const KernelCall& kernel, size_t binding) const;
  Status Make(Group* group, GpuBufferId params);

  GpuModel model_;
  const GpuArenas& arenas_;
  uint32_t row_limit_;
  std::vector<Call> calls_;
  std::vector<Group> groups_;
  std::vector<GpuDispatch> dispatches_;
  uint32_t row_count_ = 0;  // of dispatches_
  uint32_t output_count_ = 0;
  bool chooses_ = false;
};

}  // namespace nonstop
