// Look-ups in a parsed header.
#include "format/gguf.h"

#include <algorithm>

#include "base/format.h"
#include "format/byte_cursor.h"
#include "format/gguf_values.h"

namespace nonstop {
namespace {

// "array of u32", "string".
std::string TypeText(const GgufValue& value) {
  if (value.type != GgufType::kArray) return GgufTypeName(value.type);
  return Format("array of %s", GgufTypeName(value.element_type));
}

Error WrongType(std::string_view key, const GgufValue& value, const char* wanted) {
  return MakeError(ErrorCode::kMalformed,
                   "The metadata key \"%s\" is of type (%s), where %s is wanted.",
                   Printable(key).c_str(), TypeText(value).c_str(), wanted);
}

bool IsInteger(GgufType type) {
  switch (type) {
    case GgufType::kF32:
    case GgufType::kF64:
    case GgufType::kBool:
    case GgufType::kString:
    case GgufType::kArray:
      return false;
    default:
      return true;
  }
}

}  // namespace

const GgufTensor* Gguf::FindTensor(std::string_view name) const {
  const auto found = std::lower_bound(
      name_order_.begin(), name_order_.end(), name,
      [this](uint32_t index, std::string_view wanted) { return tensors_[index].name < wanted; });
  if (found == name_order_.end() || tensors_[*found].name != name) return nullptr;
  return &tensors_[*found];
}

const GgufValue* Gguf::Find(std::string_view key) const {
  const auto found = std::lower_bound(
      key_order_.begin(), key_order_.end(), key,
      [this](uint32_t index, std::string_view wanted) { return metadata_[index].key < wanted; });
  if (found == key_order_.end() || metadata_[*found].key != key) return nullptr;
  return &metadata_[*found].value;
}

Result<std::optional<uint64_t>> Gguf::FindUint(std::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return std::optional<uint64_t>();
  if (!IsInteger(value->type)) return WrongType(key, *value, "a whole number");
  const std::optional<uint64_t> number = ReadUint(value->type, value->bytes.data());
  if (number) return number;
  const int64_t negative = ReadInt(value->type, value->bytes.data()).value_or(0);
  return MakeError(ErrorCode::kMalformed, "The metadata key \"%s\" has the negative value (%lld).",
                   Printable(key).c_str(), static_cast<long long>(negative));
}

Result<std::optional<double>> Gguf::FindFloat(std::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return std::optional<double>();
  if (GgufTypeSizeBytes(value->type) == 0 || value->type == GgufType::kBool) {
    return WrongType(key, *value, "a number");
  }
  return ReadNumber(value->type, value->bytes.data());
}

Result<std::optional<bool>> Gguf::FindBool(std::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return std::optional<bool>();
  if (value->type != GgufType::kBool) return WrongType(key, *value, "a boolean");
  return std::optional<bool>(value->bytes[0] != std::byte{0});
}

Result<std::optional<std::string_view>> Gguf::FindString(std::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return std::optional<std::string_view>();
  if (value->type != GgufType::kString) return WrongType(key, *value, "a string");
  return std::optional<std::string_view>(AsText(value->bytes));
}

Result<std::optional<GgufStringArray>> Gguf::FindStringArray(std::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return std::optional<GgufStringArray>();
  if (value->type != GgufType::kArray || value->element_type != GgufType::kString) {
    return WrongType(key, *value, "an array of strings");
  }
  return std::optional<GgufStringArray>(GgufStringArray(value->bytes, value->element_count));
}

Result<std::optional<std::vector<float>>> Gguf::FindFloatArray(std::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return std::optional<std::vector<float>>();
  const GgufType type = value->element_type;
  if (value->type != GgufType::kArray || (type != GgufType::kF32 && type != GgufType::kF64)) {
    return WrongType(key, *value, "an array of floats");
  }
  std::vector<float> numbers(static_cast<size_t>(value->element_count));
  for (size_t i = 0; i < numbers.size(); ++i) {
    const std::byte* bytes = value->bytes.data() + i * GgufTypeSizeBytes(type);
    numbers[i] = static_cast<float>(*ReadNumber(type, bytes));
  }
  return std::optional(std::move(numbers));
}

Result<std::optional<std::vector<int32_t>>> Gguf::FindIntArray(std::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return std::optional<std::vector<int32_t>>();
  const GgufType type = value->element_type;
  if (value->type != GgufType::kArray || (!IsInteger(type) && type != GgufType::kBool)) {
    return WrongType(key, *value, "an array of whole numbers");
  }
  // A boolean is checked to be the byte 0 or 1.
  const GgufType read_type = type == GgufType::kBool ? GgufType::kU8 : type;
  std::vector<int32_t> numbers(static_cast<size_t>(value->element_count));
  for (size_t i = 0; i < numbers.size(); ++i) {
    const std::byte* bytes = value->bytes.data() + i * GgufTypeSizeBytes(type);
    const std::optional<int64_t> number = ReadInt(read_type, bytes);
    if (!number || *number < INT32_MIN || *number > INT32_MAX) {
      return MakeError(ErrorCode::kMalformed,
                       "The metadata key \"%s\" has at index (%zu) a number that does not fit in "
                       "(32) bits.",
                       Printable(key).c_str(), i);
    }
    numbers[i] = static_cast<int32_t>(*number);
  }
  return std::optional(std::move(numbers));
}

Status CheckComputable(const Gguf& gguf) {
  for (const GgufTensor& tensor : gguf.tensors()) {
    const DTypeInfo& info = GetDType(tensor.dtype);
    if (info.is_computed) continue;
    return MakeError(ErrorCode::kUnsupportedType,
                     "Tensor \"%s\" is of type (%s), which cannot be computed with here.",
                     Printable(tensor.name).c_str(), info.name);
  }
  return {};
}

}  // namespace nonstop
