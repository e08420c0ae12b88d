// Takes a model in as its files' bytes arrive, in order: header first, then tensors straight into
// the packed weights. The host fills the staging area that Reserve gives, so bytes are moved once.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "format/gguf_split.h"
#include "format/tensor_stream.h"
#include "model/weight_sink.h"

namespace nonstop {

enum class LoadProgress : uint8_t { kWantsBytes, kHeaderComplete, kFileComplete };

class Loader {
 public:
  static constexpr uint32_t kMaxPieceBytes = 1u << 20;

  // `weights` must outlive the loader.
  explicit Loader(WeightSink* weights) : weights_(*weights) {}

  // Files of a split model come one after the other, from number 0. size < 0: unknown.
  Status BeginFile(uint32_t file_index, double file_size_bytes);
  // Where up to `size_bytes` of the file's next bytes go.
  Result<std::span<std::byte>> Reserve(uint32_t size_bytes);
  // The next `size_bytes` are there. kHeaderComplete is reported once, by the piece that ends it.
  Result<LoadProgress> Commit(uint32_t size_bytes);
  // No more bytes: kTruncated when some are missing.
  Status EndFile();

  uint32_t split_count() const { return split_count_; }
  // All headers, once the last file's is complete.
  const GgufSet* files() const { return files_ ? &*files_ : nullptr; }
  bool is_complete() const { return complete_count_ == split_count_ && files_.has_value(); }

 private:
  Result<LoadProgress> PushHeader(std::span<const std::byte> bytes);
  Result<LoadProgress> PushTensors(std::span<const std::byte> bytes, LoadProgress progress);
  Status TakeHeader();
  void ReserveMemory();

  WeightSink& weights_;
  AlignedBuffer staging_;
  std::optional<GgufParser> parser_;
  std::optional<TensorStream> stream_;
  std::vector<Gguf> headers_;  // until all are there
  std::optional<GgufSet> files_;
  double file_size_bytes_ = -1.0;
  uint64_t pushed_bytes_ = 0;  // of this file
  uint32_t split_count_ = 1;
  uint32_t next_file_ = 0;
  uint32_t complete_count_ = 0;
  bool is_file_complete_ = false;
  bool is_memory_reserved_ = false;
};

}  // namespace nonstop
