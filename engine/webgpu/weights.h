// The model's weights on the GPU: packed from raw GGUF bytes by compute kernels while the file
// streams in. Matrices lie in windows, buffers of at most one binding's size; vectors (norms,
// biases, RoPE frequencies) in one f32 buffer.
// Raw bytes go through staging buffers of some MiB each, a new one only while a pack kernel is not
// compiled yet; what then waits is packed by a later Push or PackPending.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/weight_sink.h"
#include "port/gpu.h"
#include "tensor/dtype.h"

namespace nonstop {

// Rows of a matrix that lie in one window.
struct GpuMatrixPart {
  GpuBufferId window = 0;
  uint32_t base = 0;       // where its first group of rows starts, in vec4s of the window
  uint32_t row_begin = 0;  // in the matrix; a multiple of 8
  uint32_t row_count = 0;
};

struct GpuMatrix {
  DType dtype = DType::kF32;
  uint32_t row_count = 0;
  uint32_t column_count = 0;
  std::vector<GpuMatrixPart> parts;  // one, unless the matrix is larger than a window
};

// A range of rows as a matrix; row_begin is a multiple of 8.
GpuMatrix SliceRows(const GpuMatrix& matrix, uint32_t row_begin, uint32_t row_count);

class GpuWeights final : public WeightSink {
 public:
  static constexpr uint32_t kStagingBytes = 4u << 20;

  explicit GpuWeights(Gpu* gpu) : gpu_(*gpu) {}
  ~GpuWeights() override;
  GpuWeights(const GpuWeights&) = delete;
  GpuWeights& operator=(const GpuWeights&) = delete;

  // Also begins to compile the pack kernels that these tensors need.
  void ReserveMemory(std::span<const GgufTensor> tensors) override;
  Status Push(const TensorPiece& piece) override;
  const std::vector<float>* FindVector(std::string_view name) const override;
  uint64_t size_bytes() const override { return size_bytes_; }

  // Packs what waits for its kernel, if that is ready. True once nothing waits.
  Result<bool> PackPending();

  // Puts numbers that are in no tensor beside the vectors.
  void AddVector(std::string_view name, std::span<const float> values);
  // All tensors were pushed and vectors added: fills the buffer of vectors.
  Status Finish();

  // Complete tensors only.
  const GpuMatrix* FindMatrix(std::string_view name) const;
  std::optional<uint32_t> FindVectorOffset(std::string_view name) const;  // in floats

  GpuBufferId vectors() const { return vectors_buffer_; }
  uint64_t vectors_size_bytes() const { return vector_floats_.size() * sizeof(float); }
  uint64_t WindowSizeBytes(GpuBufferId window) const;

 private:
  struct Window {
    GpuBufferId buffer;
    uint64_t size_bytes;
    uint64_t used_bytes;
  };
  struct NamedMatrix {
    std::string name;
    GpuMatrix matrix;
    bool is_complete = false;
  };
  struct NamedVector {
    std::string name;
    uint32_t offset;  // in vector_floats_
    std::vector<float> values;
  };
  struct PackPipeline {
    DType dtype;
    GpuPipelineId pipeline;
  };
  struct Staging {
    GpuBufferId buffer;
    uint64_t size_bytes;
  };
  // Rows in a staging buffer, to be packed to the end of a part.
  struct Chunk {
    DType dtype;
    uint32_t column_count;
    uint32_t row_count;
    Staging staging;
    GpuBufferId window;
    uint32_t packed_begin;  // in words
  };

  uint64_t WindowLimitBytes() const;
  Status Begin(const GgufTensor& tensor);
  Status End();
  Status EndVector();
  Result<GpuMatrix> Place(const GgufTensor& tensor);
  Status OpenWindow(uint64_t wanted_bytes);
  Status CheckFinite(std::span<const std::byte> bytes);
  Status CheckBlocks(std::span<const std::byte> bytes);

  Result<GpuPipelineId> PipelineFor(DType dtype);
  Status PushRows(std::span<const std::byte> bytes);
  Status BeginChunk();
  Status Stage(std::span<const std::byte> bytes);
  Status EndChunk();
  Result<Staging> TakeStaging(uint64_t size_bytes);
  Status Pack(const Chunk& chunk, GpuPipelineId pipeline);

  Gpu& gpu_;
  std::vector<Window> windows_;
  std::vector<NamedMatrix> matrices_;
  std::vector<NamedVector> named_vectors_;
  std::vector<float> vector_floats_;
  std::optional<GpuBufferId> params_buffer_;
  GpuBufferId vectors_buffer_ = 0;
  bool has_vectors_buffer_ = false;
  uint64_t size_bytes_ = 0;
  uint64_t expected_bytes_ = 0;  // of what will be placed, as far as it is known

  std::vector<PackPipeline> pipelines_;
  std::vector<Staging> free_staging_;
  std::vector<Chunk> waiting_;  // oldest first

  // The tensor that is coming in.
  const GgufTensor* tensor_ = nullptr;
  std::vector<std::byte> pending_;  // of a vector: all; of a matrix: a block that is not whole yet
  uint64_t checked_blocks_ = 0;
  uint32_t packed_rows_ = 0;  // in chunks that are ended
  size_t part_ = 0;           // of the matrix
  std::optional<Chunk> chunk_;
  uint64_t chunk_bytes_ = 0;   // raw bytes of the whole chunk
  uint64_t staged_bytes_ = 0;  // of it
  std::byte tail_[4] = {};     // staged bytes that do not fill a word yet
};

}  // namespace nonstop
