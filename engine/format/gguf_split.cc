// Split keys, split names, and the merged tensor table.
#include "format/gguf_split.h"

#include <algorithm>
#include <charconv>

#include "base/format.h"
#include "format/gguf_tensor_table.h"

namespace nonstop {
namespace {

constexpr const char* kNumberKey = "split.no";
constexpr const char* kCountKey = "split.count";
constexpr const char* kTensorCountKey = "split.tensors.count";

// "-00001-of-00003": what stands between a split file's prefix and ".gguf".
constexpr size_t kMarkSize = 15;

std::optional<uint32_t> ParseFiveDigits(std::string_view text) {
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<uint32_t> ParseMarkCount(std::string_view mark) {
  if (mark.size() != kMarkSize || mark[0] != '-' || mark.substr(6, 4) != "-of-") {
    return std::nullopt;
  }
  const auto number = ParseFiveDigits(mark.substr(1, 5));
  const auto count = ParseFiveDigits(mark.substr(10, 5));
  if (!number || !count || *number < 1 || *number > *count) return std::nullopt;
  return count;
}

Status CheckFile(const Gguf& gguf, size_t index, const SplitInfo& first) {
  ASSIGN_OR_RETURN(const SplitInfo info, ReadSplitInfo(gguf));
  if (info.count != first.count) {
    return MakeError(ErrorCode::kMalformed,
                     "File (%zu) belongs to a split of (%u) files, the first one to a split of "
                     "(%u).",
                     index + 1, info.count, first.count);
  }
  if (info.number != index) {
    return MakeError(ErrorCode::kMalformed, "File (%zu) of the split says that it is number (%u).",
                     index + 1, info.number + 1);
  }
  return {};
}

}  // namespace

Result<SplitInfo> ReadSplitInfo(const Gguf& gguf) {
  ASSIGN_OR_RETURN(const std::optional<uint64_t> count, gguf.FindUint(kCountKey));
  if (count.value_or(0) == 0) return SplitInfo{0, 1, gguf.tensors().size()};
  if (*count > kMaxSplitCount) {
    return MakeError(ErrorCode::kMalformed,
                     "The split has (%s) files, more than the limit of (%u).",
                     Grouped(*count).c_str(), kMaxSplitCount);
  }
  ASSIGN_OR_RETURN(const std::optional<uint64_t> number, gguf.FindUint(kNumberKey));
  ASSIGN_OR_RETURN(const std::optional<uint64_t> tensor_count, gguf.FindUint(kTensorCountKey));
  if (!number || !tensor_count) {
    return MakeError(ErrorCode::kMissingMetadata,
                     "The metadata key \"%s\" is missing from a file of a split.",
                     number ? kTensorCountKey : kNumberKey);
  }
  if (*number >= *count) {
    return MakeError(ErrorCode::kMalformed, "The split has (%s) files, but this is number (%s).",
                     Grouped(*count).c_str(), Grouped(*number).c_str());
  }
  return SplitInfo{static_cast<uint32_t>(*number), static_cast<uint32_t>(*count), *tensor_count};
}

Result<std::vector<std::string>> SplitFileNames(std::string_view name, uint32_t count) {
  const std::string_view path = name.substr(0, name.find_first_of("?#"));
  const std::string_view query = name.substr(path.size());
  const size_t stem_size = path.ends_with(".gguf") ? path.size() - 5 : 0;
  std::optional<uint32_t> named_count;
  if (stem_size > kMarkSize) {
    named_count = ParseMarkCount(path.substr(stem_size - kMarkSize, kMarkSize));
  }
  if (!named_count) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "The model has (%u) files, but the name \"%s\" is not of the form "
                     "\"name-00001-of-%05u.gguf\".",
                     count, Printable(name, 200).c_str(), count);
  }
  if (*named_count != count || count > kMaxSplitCount) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "The model has (%u) files, but the name \"%s\" says (%u).", count,
                     Printable(name, 200).c_str(), *named_count);
  }
  const std::string prefix(path.substr(0, stem_size - kMarkSize));
  std::vector<std::string> names;
  for (uint32_t number = 1; number <= count; ++number) {
    names.push_back(prefix + Format("-%05u-of-%05u.gguf", number, count) + std::string(query));
  }
  return names;
}

Result<GgufSet> GgufSet::Create(std::vector<Gguf> files) {
  CHECK(!files.empty());
  ASSIGN_OR_RETURN(const SplitInfo first, ReadSplitInfo(files[0]));
  if (files.size() != first.count) {
    return MakeError(ErrorCode::kMalformed, "The model has (%u) files, of which (%zu) were given.",
                     first.count, files.size());
  }
  GgufSet set(std::move(files));
  std::vector<const GgufTensor*> tensors;
  std::vector<std::string_view> names;
  for (size_t index = 0; index < set.files_.size(); ++index) {
    TRY(CheckFile(set.files_[index], index, first));
    for (GgufTensor& tensor : set.files_[index].tensors_) {
      tensor.file_index = static_cast<uint32_t>(index);
      tensors.push_back(&tensor);
      names.push_back(tensor.name);
    }
  }
  if (tensors.size() != first.tensor_count) {
    return MakeError(ErrorCode::kMalformed,
                     "The files of the split hold (%zu) tensors, where (%s) are promised.",
                     tensors.size(), Grouped(first.tensor_count).c_str());
  }
  const NameOrder order = SortByName(names);
  if (order.duplicate) {
    return MakeError(ErrorCode::kMalformed, "Two files of the split hold a tensor \"%s\".",
                     Printable(names[*order.duplicate]).c_str());
  }
  set.by_name_.reserve(tensors.size());
  for (const uint32_t index : order.indices) set.by_name_.push_back(tensors[index]);
  return set;
}

const GgufTensor* GgufSet::FindTensor(std::string_view name) const {
  const auto found = std::lower_bound(
      by_name_.begin(), by_name_.end(), name,
      [](const GgufTensor* tensor, std::string_view wanted) { return tensor->name < wanted; });
  if (found == by_name_.end() || (*found)->name != name) return nullptr;
  return *found;
}

}  // namespace nonstop
