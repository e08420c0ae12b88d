// The header parser: a state machine over items (a key, a value or a piece of an array, a tensor
// entry). An item that has not come whole is tried again when more bytes come; trying costs a few
// field reads, so the work stays linear even byte by byte.
#include <algorithm>

#include "base/format.h"
#include "format/byte_cursor.h"
#include "format/file_kind.h"
#include "format/gguf.h"
#include "format/gguf_tensor_table.h"
#include "format/gguf_values.h"

namespace nonstop {
namespace {

constexpr size_t kPreambleSizeBytes = 24;     // magic, version, tensor count, metadata count
constexpr size_t kStrideBytes = 64 * 1024;    // how much a Push copies beyond the header at most
constexpr uint64_t kMaxAlignment = 64 * 1024;
constexpr std::string_view kAlignmentKey = "general.alignment";

Error OverLimit(const std::string& what, uint64_t value, uint64_t limit) {
  return MakeError(ErrorCode::kMalformed, "%s (%s) is over the limit of (%s).", what.c_str(),
                   Grouped(value).c_str(), Grouped(limit).c_str());
}

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

Result<bool> GgufParser::Push(std::span<const std::byte> bytes) {
  if (error_) return *error_;
  while (stage_ != Stage::kComplete && !bytes.empty()) {
    const uint64_t room = limits_.header_size_bytes - (buffer_start_ + buffer_.size());
    if (room == 0) {
      error_ = MakeError(ErrorCode::kMalformed, "The header is larger than the limit of (%s) bytes.",
                         Grouped(limits_.header_size_bytes).c_str());
      return *error_;
    }
    const auto size_bytes = static_cast<size_t>(
        std::min<uint64_t>(room, std::min(bytes.size(), kStrideBytes)));
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
    case Stage::kPreamble: return ParsePreamble();
    case Stage::kMetadata: return ParseMetadataStart();
    case Stage::kValue: return ParseValue();
    case Stage::kTensors: return ParseTensor();
    case Stage::kPadding: return ParsePadding();
    case Stage::kComplete: break;
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

GgufParser::Progress GgufParser::ParseMetadataStart() {
  ByteCursor cursor(buffer_, position_);
  const auto key_size_bytes = cursor.Read<uint64_t>();
  if (!key_size_bytes) return false;
  if (*key_size_bytes == 0 || *key_size_bytes > limits_.key_size_bytes) {
    return MakeError(ErrorCode::kMalformed,
                     "Metadata entry (%s) has a key of (%s) bytes, where (1) to (%s) are allowed.",
                     Grouped(entries_.size() + 1).c_str(), Grouped(*key_size_bytes).c_str(),
                     Grouped(limits_.key_size_bytes).c_str());
  }
  Entry entry = {};
  entry.key_position = cursor.position();
  entry.key_size_bytes = static_cast<size_t>(*key_size_bytes);
  const auto key = cursor.Take(*key_size_bytes);
  if (!key) return false;
  const auto type_id = cursor.Read<uint32_t>();
  if (!type_id) return false;
  if (!IsGgufType(*type_id)) {
    return MakeError(ErrorCode::kMalformed,
                     "The metadata key \"%s\" has a value of the unknown type (%u).",
                     Printable(AsText(*key)).c_str(), *type_id);
  }
  entry.type = static_cast<GgufType>(*type_id);
  std::optional<uint32_t> element_type_id;
  if (entry.type == GgufType::kArray) {
    element_type_id = cursor.Read<uint32_t>();
    if (!element_type_id) return false;
    const auto element_count = cursor.Read<uint64_t>();
    if (!element_count) return false;
    entry.element_type = static_cast<GgufType>(*element_type_id);
    entry.element_count = *element_count;
  }
  entry.value_position = cursor.position();
  entries_.push_back(entry);
  if (element_type_id) TRY(PushFrame(*element_type_id, entry.element_count));
  position_ = cursor.position();
  stage_ = Stage::kValue;
  return true;
}

GgufParser::Progress GgufParser::ParseValue() {
  const GgufType type = entries_.back().type;
  if (type == GgufType::kArray) return ParseArray();
  ASSIGN_OR_RETURN(const bool is_whole,
                   type == GgufType::kString ? ParseString() : ParseFixedSize(type, 1));
  if (is_whole) TRY(FinishEntry());
  return is_whole;
}

// One step into the innermost array: a string, a nested array's head, or all its plain values.
GgufParser::Progress GgufParser::ParseArray() {
  ArrayFrame& frame = frames_.back();
  if (frame.remaining_count == 0) {
    frames_.pop_back();
    if (frames_.empty()) TRY(FinishEntry());
    return true;
  }
  if (frame.element_type == GgufType::kArray) return OpenNestedArray();
  if (frame.element_type == GgufType::kString) {
    ASSIGN_OR_RETURN(const bool is_whole, ParseString());
    if (is_whole) --frame.remaining_count;
    return is_whole;
  }
  ASSIGN_OR_RETURN(const bool is_whole, ParseFixedSize(frame.element_type, frame.remaining_count));
  if (is_whole) frame.remaining_count = 0;
  return is_whole;
}

GgufParser::Progress GgufParser::OpenNestedArray() {
  ByteCursor cursor(buffer_, position_);
  const auto element_type_id = cursor.Read<uint32_t>();
  if (!element_type_id) return false;
  const auto count = cursor.Read<uint64_t>();
  if (!count) return false;
  --frames_.back().remaining_count;
  TRY(PushFrame(*element_type_id, *count));
  position_ = cursor.position();
  return true;
}

Status GgufParser::PushFrame(uint32_t element_type_id, uint64_t count) {
  if (!IsGgufType(element_type_id)) {
    return MakeError(ErrorCode::kMalformed,
                     "The metadata key %s has an array of the unknown type (%u).",
                     KeyText().c_str(), element_type_id);
  }
  if (count > limits_.array_length) {
    return OverLimit("The array length of the metadata key " + KeyText(), count,
                     limits_.array_length);
  }
  if (frames_.size() >= limits_.array_nesting) {
    return MakeError(ErrorCode::kMalformed,
                     "The metadata key %s nests arrays deeper than the limit of (%u).",
                     KeyText().c_str(), limits_.array_nesting);
  }
  frames_.push_back({static_cast<GgufType>(element_type_id), count});
  return {};
}

GgufParser::Progress GgufParser::ParseString() {
  ByteCursor cursor(buffer_, position_);
  const auto size_bytes = cursor.Read<uint64_t>();
  if (!size_bytes) return false;
  TRY(CheckSize("a string", *size_bytes, cursor.position()));
  if (!cursor.Take(*size_bytes)) return false;
  position_ = cursor.position();
  return true;
}

GgufParser::Progress GgufParser::ParseFixedSize(GgufType type, uint64_t count) {
  uint64_t size_bytes = 0;
  if (!CheckedMul(count, GgufTypeSizeBytes(type), &size_bytes)) size_bytes = UINT64_MAX;
  TRY(CheckSize("a value", size_bytes, position_));
  ByteCursor cursor(buffer_, position_);
  const auto bytes = cursor.Take(size_bytes);
  if (!bytes) return false;
  if (type == GgufType::kBool) {
    const auto bad = std::find_if(bytes->begin(), bytes->end(),
                                  [](std::byte value) { return value > std::byte{1}; });
    if (bad != bytes->end()) {
      return MakeError(ErrorCode::kMalformed,
                       "The metadata key %s has the boolean (%u), where (0) or (1) is allowed.",
                       KeyText().c_str(), static_cast<unsigned>(*bad));
    }
  }
  position_ = cursor.position();
  return true;
}

Status GgufParser::FinishEntry() {
  Entry& entry = entries_.back();
  entry.value_size_bytes = position_ - entry.value_position;
  if (entry.type == GgufType::kString) {  // the value is the text, without its length
    entry.value_position += sizeof(uint64_t);
    entry.value_size_bytes -= sizeof(uint64_t);
  }
  stage_ = Stage::kMetadata;
  if (entries_.size() == metadata_total_) return FinishMetadata();
  return {};
}

// The metadata bytes move to gguf_, where views of them stay valid; the rest begins a new buffer.
Status GgufParser::FinishMetadata() {
  std::vector<std::byte> rest(buffer_.begin() + static_cast<std::ptrdiff_t>(position_),
                              buffer_.end());
  buffer_.resize(position_);
  buffer_.shrink_to_fit();
  gguf_.header_ = std::move(buffer_);
  buffer_ = std::move(rest);
  buffer_start_ = position_;
  position_ = 0;

  const std::span<const std::byte> header = gguf_.header_;
  std::vector<std::string_view> keys;
  keys.reserve(entries_.size());
  gguf_.metadata_.reserve(entries_.size());
  for (const Entry& entry : entries_) {
    keys.push_back(AsText(header.subspan(entry.key_position, entry.key_size_bytes)));
    gguf_.metadata_.push_back(
        {keys.back(),
         {entry.type, entry.element_type, entry.element_count,
          header.subspan(entry.value_position, entry.value_size_bytes)}});
  }
  NameOrder order = SortByName(keys);
  if (order.duplicate) {
    return MakeError(ErrorCode::kMalformed, "The metadata key \"%s\" is there twice.",
                     Printable(keys[*order.duplicate]).c_str());
  }
  gguf_.key_order_ = std::move(order.indices);
  TRY(ReadAlignment());
  stage_ = Stage::kTensors;
  return tensor_total_ == 0 ? FinishTensors() : Status();
}

// ggml asks for a power of two; the specification also for a multiple of 8, which files of older
// writers need not be.
Status GgufParser::ReadAlignment() {
  ASSIGN_OR_RETURN(const std::optional<uint64_t> alignment, gguf_.FindUint(kAlignmentKey));
  if (!alignment) return {};
  if (!std::has_single_bit(*alignment) || *alignment > kMaxAlignment) {
    return MakeError(ErrorCode::kMalformed,
                     "The metadata key \"general.alignment\" is (%s), no power of two from (1) to "
                     "(%s).",
                     Grouped(*alignment).c_str(), Grouped(kMaxAlignment).c_str());
  }
  gguf_.alignment_ = static_cast<uint32_t>(*alignment);
  return {};
}

GgufParser::Progress GgufParser::ParseTensor() {
  ByteCursor cursor(buffer_, position_);
  ASSIGN_OR_RETURN(
      std::optional<GgufTensor> tensor,
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
  ASSIGN_OR_RETURN(gguf_.name_order_,
                   FinishTensorTable(gguf_.data_offset_bytes_, gguf_.tensors_));
  gguf_.file_size_bytes_ =
      gguf_.tensors_.empty() ? header_end : gguf_.tensors_.back().end_bytes();
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

Status GgufParser::CheckSize(const char* what, uint64_t size_bytes, size_t position) const {
  if (size_bytes <= limits_.header_size_bytes - position) return {};
  return MakeError(ErrorCode::kMalformed,
                   "The metadata key %s has %s of (%s) bytes, past the header's limit of (%s).",
                   KeyText().c_str(), what, Grouped(size_bytes).c_str(),
                   Grouped(limits_.header_size_bytes).c_str());
}

// The key of the entry being parsed, quoted.
std::string GgufParser::KeyText() const {
  const Entry& entry = entries_.back();
  const auto key = std::span(buffer_).subspan(entry.key_position, entry.key_size_bytes);
  return "\"" + Printable(AsText(key)) + "\"";
}

}  // namespace nonstop
