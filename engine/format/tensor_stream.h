// Cuts a file's tensor data, pushed in order and in pieces of any size, into pieces of tensors.
// Goals: no copy, no buffering, padding skipped, a short file noticed and named.
// Non-goals: random access; a host that maps the file reads GgufTensor::offset_bytes itself.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "base/result.h"
#include "format/gguf.h"

namespace nonstop {

struct TensorPiece {
  const GgufTensor* tensor;
  uint64_t offset_bytes;             // inside the tensor
  std::span<const std::byte> bytes;  // never empty; a view of what was pushed
};

class TensorStream {
 public:
  // `tensors` in file order (Gguf::tensors), which must outlive the stream; the first byte pushed
  // is the file's byte `start_bytes` (GgufParser::header_size_bytes).
  TensorStream(std::span<const GgufTensor> tensors, uint64_t start_bytes);

  // Calls `visit(piece)`, which returns a Status, for each piece in `bytes`, in file order.
  template <class Visit>
  Status Push(std::span<const std::byte> bytes, Visit&& visit) {
    while (std::optional<TensorPiece> piece = TakePiece(bytes)) TRY(visit(*piece));
    return {};
  }
  // Takes one piece off the front of `bytes`; nullopt once no tensor has a byte in the rest (which
  // is then taken too).
  std::optional<TensorPiece> TakePiece(std::span<const std::byte>& bytes);

  std::span<const GgufTensor> tensors() const { return tensors_; }
  // True once every tensor's last byte was pushed.
  bool is_complete() const { return next_ == tensors_.size(); }
  // The file's byte that is pushed next.
  uint64_t position_bytes() const { return position_bytes_; }
  // No more bytes will come: kTruncated, with the first tensor that is not whole.
  Status Finish() const;

 private:
  std::span<const GgufTensor> tensors_;
  uint64_t position_bytes_;
  size_t next_ = 0;  // the first tensor that is not whole
};

}  // namespace nonstop
