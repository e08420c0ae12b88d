#include "session/loader.h"

#include <algorithm>

namespace nonstop {

Status Loader::BeginFile(uint32_t file_index, double file_size_bytes) {
  if (file_index != next_file_ || (file_index > 0 && file_index >= split_count_)) {
    return MakeError(ErrorCode::kWrongState, "File (%u) was begun, file (%u of %u) is next.",
                     file_index, next_file_, split_count_);
  }
  if (parser_ || stream_) {
    return MakeError(ErrorCode::kWrongState, "File (%u) is not complete yet.", file_index);
  }
  parser_.emplace();
  file_size_bytes_ = file_size_bytes;
  pushed_bytes_ = 0;
  is_file_complete_ = false;
  is_memory_reserved_ = false;
  return {};
}

Result<std::span<std::byte>> Loader::Reserve(uint32_t size_bytes) {
  if (staging_.data() == nullptr) {
    ASSIGN_OR_RETURN(staging_, AlignedBuffer::CreateUninitialized(kMaxPieceBytes));
  }
  return staging_.span().first(std::min(size_bytes, kMaxPieceBytes));
}

Result<LoadProgress> Loader::Commit(uint32_t size_bytes) {
  if ((!parser_ && !stream_) || size_bytes > staging_.size_bytes()) {
    return MakeError(ErrorCode::kWrongState, "Bytes (%u) were pushed without a file or a place.",
                     size_bytes);
  }
  const std::span<const std::byte> bytes = staging_.span().first(size_bytes);
  pushed_bytes_ += size_bytes;
  if (parser_) return PushHeader(bytes);
  ReserveMemory();
  return PushTensors(bytes, LoadProgress::kWantsBytes);
}

Result<LoadProgress> Loader::PushHeader(std::span<const std::byte> bytes) {
  ASSIGN_OR_RETURN(const bool is_complete, parser_->Push(bytes));
  if (!is_complete) return LoadProgress::kWantsBytes;
  if (file_size_bytes_ >= 0.0) {
    TRY(parser_->CheckFileSize(static_cast<uint64_t>(file_size_bytes_)));
  }
  const auto surplus = static_cast<size_t>(pushed_bytes_ - parser_->header_size_bytes());
  TRY(TakeHeader());
  return PushTensors(bytes.last(surplus), LoadProgress::kHeaderComplete);
}

Status Loader::TakeHeader() {
  const uint64_t header_size_bytes = parser_->header_size_bytes();
  headers_.push_back(parser_->Take());
  parser_.reset();
  const Gguf& header = headers_.back();
  TRY(CheckComputable(header));
  ASSIGN_OR_RETURN(const SplitInfo split, ReadSplitInfo(header));
  if (next_file_ == 0) split_count_ = split.count;
  // Moving a header keeps its tensors where they are.
  stream_.emplace(header.tensors(), header_size_bytes);
  if (headers_.size() < split_count_) return {};
  ASSIGN_OR_RETURN(GgufSet files, GgufSet::Create(std::move(headers_)));
  files_.emplace(std::move(files));
  return {};
}

// Once a file, when bytes follow its header: a host that wants the header only ends before. What an
// unknown size might hide is not believed.
void Loader::ReserveMemory() {
  if (is_memory_reserved_ || file_size_bytes_ < 0.0) return;
  weights_.ReserveMemory(stream_->tensors());
  is_memory_reserved_ = true;
}

Result<LoadProgress> Loader::PushTensors(std::span<const std::byte> bytes, LoadProgress progress) {
  TRY(stream_->Push(bytes, [&](const TensorPiece& piece) { return weights_.Push(piece); }));
  if (!stream_->is_complete()) return progress;
  if (!is_file_complete_) {
    is_file_complete_ = true;
    ++complete_count_;
  }
  // A header that ends in the same piece is reported first; the next commit (of none) ends the
  // file.
  return progress == LoadProgress::kHeaderComplete ? progress : LoadProgress::kFileComplete;
}

Status Loader::EndFile() {
  if (parser_) return parser_->Truncated();
  if (!stream_) return MakeError(ErrorCode::kWrongState, "No file was begun.");
  TRY(stream_->Finish());
  stream_.reset();
  ++next_file_;
  if (complete_count_ == split_count_) staging_ = {};
  return {};
}

}  // namespace nonstop
