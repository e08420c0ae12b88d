// A position in the file and the first tensor that is not whole: that is all the state.
#include "format/tensor_stream.h"

#include <algorithm>

#include "format/gguf_tensor_table.h"

namespace nonstop {

TensorStream::TensorStream(std::span<const GgufTensor> tensors, uint64_t start_bytes)
    : tensors_(tensors), position_bytes_(start_bytes) {
  for (const GgufTensor& tensor : tensors) CHECK(tensor.offset_bytes >= start_bytes);
}

std::optional<TensorPiece> TensorStream::TakePiece(std::span<const std::byte>& bytes) {
  if (is_complete()) {
    position_bytes_ += bytes.size();
    bytes = {};
    return std::nullopt;
  }
  const GgufTensor& tensor = tensors_[next_];
  const uint64_t padding = std::max(tensor.offset_bytes, position_bytes_) - position_bytes_;
  const auto skipped = static_cast<size_t>(std::min<uint64_t>(padding, bytes.size()));
  position_bytes_ += skipped;
  bytes = bytes.subspan(skipped);
  if (bytes.empty()) return std::nullopt;

  const uint64_t offset_bytes = position_bytes_ - tensor.offset_bytes;
  const auto taken =
      static_cast<size_t>(std::min<uint64_t>(tensor.size_bytes - offset_bytes, bytes.size()));
  const TensorPiece piece = {&tensor, offset_bytes, bytes.first(taken)};
  position_bytes_ += taken;
  bytes = bytes.subspan(taken);
  if (position_bytes_ == tensor.end_bytes()) ++next_;
  return piece;
}

Status TensorStream::Finish() const {
  return is_complete() ? Status() : CheckTensorEnd(tensors_[next_], position_bytes_);
}

}  // namespace nonstop
