// The metadata half of the header parser: entries, their values and arrays within arrays.
#include <algorithm>
#include <bit>

#include "base/format.h"
#include "format/byte_cursor.h"
#include "format/gguf.h"
#include "format/gguf_tensor_table.h"
#include "format/gguf_values.h"

namespace nonstop {
namespace {

constexpr uint64_t kMaxAlignment = 64 * 1024;
constexpr std::string_view kAlignmentKey = "general.alignment";

}  // namespace

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
    gguf_.metadata_.push_back({keys.back(),
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
