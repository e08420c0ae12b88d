// The model's weights as the CPU backend holds them: packed while the file streams in, a piece of a
// tensor at a time, so that no second copy of the model ever exists.
// Matrices (two dimensions) are packed for the kernels; vectors (one dimension) become f32.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "cpu/matrix.h"
#include "model/weight_sink.h"

namespace nonstop {

struct WeightOptions {
  bool keeps_raw = false;  // for the reference kernels
  // All that can be addressed: 4 GiB as wasm.
  uint64_t limit_bytes = std::numeric_limits<size_t>::max();
};

class WeightStore final : public WeightSink {
 public:
  explicit WeightStore(WeightOptions options) : options_(options) {}

  // Makes the heap large enough for these tensors too, in one step: to some hosts each growth of a
  // memory is dear (V8 collects garbage). Best effort; where the sizes alone are past the limit,
  // the next Push says so, before the file is read.
  void ReserveMemory(std::span<const GgufTensor> tensors) override;
  Status Push(const TensorPiece& piece) override;

  // Complete tensors only; nullptr otherwise.
  const cpu::Matrix* FindMatrix(std::string_view name) const;
  const std::vector<float>* FindVector(std::string_view name) const override;
  uint64_t size_bytes() const override { return size_bytes_; }

 private:
  struct StoredMatrix {
    std::string name;
    cpu::Matrix matrix;
    AlignedBuffer storage;
    bool is_complete = false;
  };

  Status Begin(const GgufTensor& tensor);
  // Without data.
  Result<cpu::Matrix> Describe(const GgufTensor& tensor) const;
  Status PushRows(std::span<const std::byte> bytes);
  Status PackWhole(std::span<const std::byte> rows, uint32_t row_count);
  Status CheckFinite(std::span<const std::byte> bytes) const;
  Status End();

  WeightOptions options_;
  // In the order of loading; searched from the front (a few hundred names, once per model).
  std::vector<std::unique_ptr<StoredMatrix>> matrices_;
  std::vector<std::pair<std::string, std::vector<float>>> vectors_;
  uint64_t size_bytes_ = 0;
  uint64_t expected_size_bytes_ = 0;

  // The tensor that is coming in.
  const GgufTensor* tensor_ = nullptr;
  StoredMatrix* open_ = nullptr;  // of a matrix
  uint32_t packed_row_count_ = 0;
  std::vector<std::byte> pending_;  // raw bytes that do not fill a group of rows yet
};

}  // namespace nonstop
