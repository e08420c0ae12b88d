// The header parser: a state machine over items (a key, a value or a piece of an array, a tensor
// entry). An item that has not come whole is tried again when more bytes come; trying costs a few
// field reads, so the work stays linear even byte by byte.
#include <algorithm>

#include "base/format.h"
#include "format/byte_cursor.h"
#include "format/file_kind.h"
#include "format/gguf.h"
#include "format/gguf_tensor_table.h"

namespace nonstop {
namespace {

constexpr size_t kPreambleSizeBytes = 24;   // magic, version, tensor count, metadata count
constexpr size_t kStrideBytes = 64 * 1024;  // how much a Push copies beyond the header at most

Status CheckVersion(uint32_t version) {
  if (version == 2 || version == 3) return {};
  if (version != 0 && (version & 0xffff) == 0) {
    return MakeError(ErrorCode::kUnsupportedVersion,
                     "The GGUF file is in big-endian byte order, which is not supported.");
  }
  return MakeError(ErrorCode::kUnsupportedVersion,
                   "The GGUF file is of version (%u); versions (2) and (3) are supported.",
                   version);
}

}  // namespace

Error GgufParser::OverLimit(const std::string& what, uint64_t value, uint64_t limit) {
  return MakeError(ErrorCode::kMalformed, "%s (%s) is over the limit of (%s).", what.c_str(),
                   Grouped(value).c_str(), Grouped(limit).c_str());
}

Result<bool> GgufParser::Push(std::span<const std::byte> bytes) {
  if (error_) return *error_;
  while (stage_ != Stage::kComplete && !bytes.empty()) {
    const uint64_t room = limits_.header_size_bytes - (buffer_start_ + buffer_.size());
    if (room == 0) {
      error_ =
          MakeError(ErrorCode::kMalformed, "The header is larger than the limit of (%s) bytes.",
                    Grouped(limits_.header_size_bytes).c_str());
      return *error_;
    }
    const auto size_bytes =
        static_cast<size_t>(std::min<uint64_t>(room, std::min(bytes.size(), kStrideBytes)));
    buffer_.insert(buffer_.end(), bytes.begin(),
                   bytes.begin() + static_cast<std::ptrdiff_t>(size_bytes));
    bytes = bytes.subspan(size_bytes);
    if (Status status = ParseAll(); !status.ok()) {
      error_ = std::move(status).error();
      return *error_;
    }
  }
  return stage_ == Stage::kComplete;
}

Error GgufParser::Truncated() const {
  CHECK(stage_ != Stage::kComplete);
  if (error_) return *error_;
  if (buffer_start_ == 0 && (buffer_.empty() || !MayBeGguf(buffer_))) {
    return DescribeNotGguf(buffer_);
  }
  std::string where;
  switch (stage_) {
    case Stage::kPreamble:
      where = Format("inside the first (%zu) bytes of a GGUF file", kPreambleSizeBytes);
      break;
    case Stage::kMetadata:
      where = Format("before metadata entry (%s) of (%s) is whole",
                     Grouped(entries_.size() + 1).c_str(), Grouped(metadata_total_).c_str());
      break;
    case Stage::kValue:
      where = Format("inside the value of the metadata key %s", KeyText().c_str());
      break;
    case Stage::kTensors:
      where = Format("before tensor entry (%s) of (%s) is whole",
                     Grouped(gguf_.tensors_.size() + 1).c_str(), Grouped(tensor_total_).c_str());
      break;
    case Stage::kPadding:
    case Stage::kComplete:
      where = Format("before the tensor data, which starts at byte (%s)",
                     Grouped(gguf_.data_offset_bytes_).c_str());
      break;
  }
  return MakeError(ErrorCode::kTruncated, "The file ends at byte (%s), %s.",
                   Grouped(buffer_start_ + buffer_.size()).c_str(), where.c_str());
}

uint64_t GgufParser::header_size_bytes() const {
  CHECK(stage_ == Stage::kComplete);
  return gguf_.data_offset_bytes_;
}

Status GgufParser::CheckFileSize(uint64_t file_size_bytes) const {
  CHECK(stage_ == Stage::kComplete);
  for (const GgufTensor& tensor : gguf_.tensors_) TRY(CheckTensorEnd(tensor, file_size_bytes));
  return {};
}

Gguf GgufParser::Take() {
  CHECK(stage_ == Stage::kComplete);
  return std::move(gguf_);
}

Status GgufParser::ParseAll() {
  while (stage_ != Stage::kComplete) {
    ASSIGN_OR_RETURN(const bool advanced, ParseStep());
    if (!advanced) break;
  }
  return {};
}

GgufParser::Progress GgufParser::ParseStep() {
  switch (stage_) {
    case Stage::kPreamble:
      return ParsePreamble();
    case Stage::kMetadata:
      return ParseMetadataStart();
    case Stage::kValue:
      return ParseValue();
    case Stage::kTensors:
      return ParseTensor();
    case Stage::kPadding:
      return ParsePadding();
    case Stage::kComplete:
      break;
  }
  return false;
}

GgufParser::Progress GgufParser::ParsePreamble() {
  if (!MayBeGguf(buffer_)) {
    if (buffer_.size() < kFileKindPrefixBytes) return false;
    return DescribeNotGguf(std::span(buffer_).first(kFileKindPrefixBytes));
  }
  if (buffer_.size() < kPreambleSizeBytes) return false;
  gguf_.version_ = LoadLe<uint32_t>(buffer_.data() + 4);
  tensor_total_ = LoadLe<uint64_t>(buffer_.data() + 8);
  metadata_total_ = LoadLe<uint64_t>(buffer_.data() + 16);
  TRY(CheckVersion(gguf_.version_));
  if (tensor_total_ > limits_.tensor_count) {
    return OverLimit("The number of tensors", tensor_total_, limits_.tensor_count);
  }
  if (metadata_total_ > limits_.metadata_count) {
    return OverLimit("The number of metadata entries", metadata_total_, limits_.metadata_count);
  }
  position_ = kPreambleSizeBytes;
  stage_ = Stage::kMetadata;
  if (metadata_total_ == 0) TRY(FinishMetadata());
  return true;
}

GgufParser::Progress GgufParser::ParseTensor() {
  ByteCursor cursor(buffer_, position_);
  ASSIGN_OR_RETURN(std::optional<GgufTensor> tensor,
                   ReadTensorEntry(cursor, gguf_.tensors_.size() + 1, gguf_.alignment_, limits_));
  if (!tensor) return false;
  position_ = cursor.position();
  gguf_.tensors_.push_back(*std::move(tensor));
  if (gguf_.tensors_.size() == tensor_total_) TRY(FinishTensors());
  return true;
}

Status GgufParser::FinishTensors() {
  const uint64_t header_end = buffer_start_ + position_;
  const uint64_t alignment = tensor_total_ == 0 ? 1 : gguf_.alignment_;
  gguf_.data_offset_bytes_ = RoundUp(header_end, alignment);
  ASSIGN_OR_RETURN(gguf_.name_order_, FinishTensorTable(gguf_.data_offset_bytes_, gguf_.tensors_));
  gguf_.file_size_bytes_ = gguf_.tensors_.empty() ? header_end : gguf_.tensors_.back().end_bytes();
  stage_ = Stage::kPadding;
  return {};
}

GgufParser::Progress GgufParser::ParsePadding() {
  if (buffer_start_ + buffer_.size() < gguf_.data_offset_bytes_) return false;
  buffer_ = {};
  entries_ = {};
  stage_ = Stage::kComplete;
  return true;
}

}  // namespace nonstop
