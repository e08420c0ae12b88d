// Tensor entries: fields first (each against what a file can hold), then one against another.
#include "format/gguf_tensor_table.h"

#include <algorithm>
#include <cstdarg>
#include <numeric>

#include "base/format.h"

namespace nonstop {
namespace {

// Past this no file can be, and sums of offsets stay inside 64 bits.
constexpr uint64_t kMaxFileSizeBytes = uint64_t{1} << 62;

std::string Quoted(std::string_view name) { return "\"" + Printable(name) + "\""; }

// "Tensor "x" ..." with the rest of the sentence printf-style.
[[gnu::format(printf, 2, 3)]] Error Malformed(std::string_view name, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const std::string what = FormatV(format, arguments);
  va_end(arguments);
  return MakeError(ErrorCode::kMalformed, "Tensor %s %s.", Quoted(name).c_str(), what.c_str());
}

// So that a row's size in bytes fits in 64 bits, whatever its type: an element has at most 8.
constexpr uint64_t kMaxElementCount = kMaxFileSizeBytes / 4;

// Reads the dimensions; nullopt while they are not whole.
Result<std::optional<bool>> ReadDimensions(ByteCursor& cursor, GgufTensor& tensor) {
  const auto dimension_count = cursor.Read<uint32_t>();
  if (!dimension_count) return std::optional<bool>();
  if (*dimension_count > 4) {
    return Malformed(tensor.name, "has (%s) dimensions, more than the (4) that GGUF allows",
                     Grouped(*dimension_count).c_str());
  }
  tensor.dimension_count = *dimension_count;
  uint64_t element_count = 1;
  for (uint32_t i = 0; i < 4; ++i) {
    tensor.dimensions[i] = 1;
    if (i >= *dimension_count) continue;
    const auto dimension = cursor.Read<uint64_t>();
    if (!dimension) return std::optional<bool>();
    if (*dimension == 0) {
      return Malformed(tensor.name, "has a dimension (%u) of length (0)", i);
    }
    if (!CheckedMul(element_count, *dimension, &element_count) ||
        element_count > kMaxElementCount) {
      return Malformed(tensor.name, "has a dimension (%u) of length (%s), too many elements in all",
                       i, Grouped(*dimension).c_str());
    }
    tensor.dimensions[i] = *dimension;
  }
  return std::optional<bool>(true);
}

Result<uint64_t> TensorSizeBytes(const GgufTensor& tensor) {
  const DTypeInfo& info = GetDType(tensor.dtype);
  if (tensor.column_count() % info.block_length != 0) {
    return Malformed(tensor.name,
                     "has rows of (%s) elements, no multiple of the (%u) in a block of type (%s)",
                     Grouped(tensor.column_count()).c_str(), info.block_length, info.name);
  }
  uint64_t size_bytes = 0;
  const uint64_t row_size_bytes = RowSizeBytes(tensor.dtype, tensor.column_count());
  if (!CheckedMul(row_size_bytes, tensor.row_count(), &size_bytes) ||
      size_bytes > kMaxFileSizeBytes) {
    return Malformed(tensor.name, "has (%s) rows of (%s) bytes, more than a file holds",
                     Grouped(tensor.row_count()).c_str(), Grouped(row_size_bytes).c_str());
  }
  return size_bytes;
}

// One sort for both orders, comparing through a pointer, and a heap sort: speed does not matter
// here, while std::sort twice is 12 KB of module.
using Less = bool (*)(const void* context, uint32_t a, uint32_t b);

std::vector<uint32_t> SortedIndices(size_t count, const void* context, Less less) {
  std::vector<uint32_t> indices(count);
  std::iota(indices.begin(), indices.end(), 0u);
  const auto compare = [=](uint32_t a, uint32_t b) { return less(context, a, b); };
  std::make_heap(indices.begin(), indices.end(), compare);
  std::sort_heap(indices.begin(), indices.end(), compare);
  return indices;
}

bool LessByOffset(const void* context, uint32_t a, uint32_t b) {
  const auto& tensors = *static_cast<const std::vector<GgufTensor>*>(context);
  if (tensors[a].offset_bytes != tensors[b].offset_bytes) {
    return tensors[a].offset_bytes < tensors[b].offset_bytes;
  }
  return a < b;
}

bool LessByName(const void* context, uint32_t a, uint32_t b) {
  const auto& names = *static_cast<const std::span<const std::string_view>*>(context);
  const int compared = names[a].compare(names[b]);
  return compared != 0 ? compared < 0 : a < b;
}

Status CheckOverlaps(std::span<const GgufTensor> tensors) {
  for (size_t i = 1; i < tensors.size(); ++i) {
    const GgufTensor& before = tensors[i - 1];
    const GgufTensor& tensor = tensors[i];
    if (tensor.offset_bytes >= before.end_bytes()) continue;
    return Malformed(tensor.name, "starts at byte (%s), inside tensor %s, which ends at byte (%s)",
                     Grouped(tensor.offset_bytes).c_str(), Quoted(before.name).c_str(),
                     Grouped(before.end_bytes()).c_str());
  }
  return {};
}

}  // namespace

Result<std::optional<GgufTensor>> ReadTensorEntry(ByteCursor& cursor, uint64_t index,
                                                  uint64_t alignment, const GgufLimits& limits) {
  const std::optional<GgufTensor> incomplete;
  const auto name_size_bytes = cursor.Read<uint64_t>();
  if (!name_size_bytes) return incomplete;
  if (*name_size_bytes > limits.tensor_name_size_bytes) {
    return MakeError(ErrorCode::kMalformed,
                     "Tensor number (%s) has a name of (%s) bytes, more than the limit of (%s).",
                     Grouped(index).c_str(), Grouped(*name_size_bytes).c_str(),
                     Grouped(limits.tensor_name_size_bytes).c_str());
  }
  const auto name = cursor.Take(*name_size_bytes);
  if (!name) return incomplete;
  GgufTensor tensor = {};
  tensor.name = AsText(*name);
  ASSIGN_OR_RETURN(const std::optional<bool> has_dimensions, ReadDimensions(cursor, tensor));
  if (!has_dimensions) return incomplete;

  const auto type_id = cursor.Read<uint32_t>();
  if (!type_id) return incomplete;
  const DTypeInfo* info = FindDType(*type_id);
  if (info == nullptr) {
    return MakeError(ErrorCode::kUnsupportedType, "Tensor %s is of the unknown type (%u).",
                     Quoted(tensor.name).c_str(), *type_id);
  }
  tensor.dtype = info->dtype;
  ASSIGN_OR_RETURN(tensor.size_bytes, TensorSizeBytes(tensor));

  const auto offset_bytes = cursor.Read<uint64_t>();
  if (!offset_bytes) return incomplete;
  if (*offset_bytes % alignment != 0) {
    return Malformed(tensor.name, "has the offset (%s), no multiple of the alignment (%s)",
                     Grouped(*offset_bytes).c_str(), Grouped(alignment).c_str());
  }
  if (*offset_bytes > kMaxFileSizeBytes) {
    return Malformed(tensor.name, "has the offset (%s), more than a file holds",
                     Grouped(*offset_bytes).c_str());
  }
  tensor.offset_bytes = *offset_bytes;
  return std::optional<GgufTensor>(std::move(tensor));
}

Result<std::vector<uint32_t>> FinishTensorTable(uint64_t data_offset_bytes,
                                                std::vector<GgufTensor>& tensors) {
  std::vector<GgufTensor> in_file_order;
  in_file_order.reserve(tensors.size());
  for (const uint32_t index : SortedIndices(tensors.size(), &tensors, LessByOffset)) {
    in_file_order.push_back(std::move(tensors[index]));
    in_file_order.back().offset_bytes += data_offset_bytes;
  }
  tensors = std::move(in_file_order);

  std::vector<std::string_view> names;
  names.reserve(tensors.size());
  for (const GgufTensor& tensor : tensors) names.push_back(tensor.name);
  NameOrder order = SortByName(names);
  if (order.duplicate) {
    return MakeError(ErrorCode::kMalformed, "There are two tensors of the name %s.",
                     Quoted(names[*order.duplicate]).c_str());
  }
  TRY(CheckOverlaps(tensors));
  return std::move(order.indices);
}

Status CheckTensorEnd(const GgufTensor& tensor, uint64_t file_size_bytes) {
  if (tensor.end_bytes() <= file_size_bytes) return {};
  return MakeError(ErrorCode::kTruncated,
                   "Tensor %s ends at byte (%s), past the end of the file (%s).",
                   Quoted(tensor.name).c_str(), Grouped(tensor.end_bytes()).c_str(),
                   Grouped(file_size_bytes).c_str());
}

NameOrder SortByName(std::span<const std::string_view> names) {
  NameOrder order;
  order.indices = SortedIndices(names.size(), &names, LessByName);
  for (size_t i = 1; i < order.indices.size() && !order.duplicate; ++i) {
    if (names[order.indices[i - 1]] == names[order.indices[i]]) order.duplicate = order.indices[i];
  }
  return order;
}

}  // namespace nonstop
