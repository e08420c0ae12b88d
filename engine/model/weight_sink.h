// Where a model's weights go while its file streams in: packed for the kernels of one backend, a
// piece of a tensor at a time, so that no second copy of the model ever exists.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "format/tensor_stream.h"

namespace nonstop {

class WeightSink {
 public:
  virtual ~WeightSink() = default;
  // Makes room for these tensors too, in one step. Best effort.
  virtual void ReserveMemory(std::span<const GgufTensor> tensors) = 0;
  // Pieces of one tensor come in order; tensors may come in any order, one at a time.
  virtual Status Push(const TensorPiece& piece) = 0;
  // Of a complete vector (one dimension), as f32; nullptr otherwise.
  virtual const std::vector<float>* FindVector(std::string_view name) const = 0;
  virtual uint64_t size_bytes() const = 0;
};

}  // namespace nonstop
