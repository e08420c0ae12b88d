// A model of several GGUF files, as llama.cpp's gguf-split writes them: each file holds a part of
// the tensors; the first also holds the model's metadata.
// Source: tools/gguf-split and llama_split_path in llama.cpp (keys split.no, split.count,
// split.tensors.count; names "x-00001-of-00003.gguf").
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "format/gguf.h"

namespace nonstop {

inline constexpr uint32_t kMaxSplitCount = 1'024;

// What a file says of the split it belongs to.
struct SplitInfo {
  uint32_t number;  // from 0
  uint32_t count;
  uint64_t tensor_count;  // of all files together
};

// Of a file that is no part of a split: number 0 of 1 with its own tensors.
Result<SplitInfo> ReadSplitInfo(const Gguf& gguf);

// Names (or URLs) of all files, from the name of any: "m-00002-of-00003.gguf?x=1" gives
// "m-00001-of-00003.gguf?x=1" and so on. kInvalidArgument if the name is not of this form, or
// gives a count other than `count`.
Result<std::vector<std::string>> SplitFileNames(std::string_view name, uint32_t count);

// All files of one model. Metadata are those of the first file; tensors carry their file_index.
class GgufSet {
 public:
  // `files` in the order of their numbers. Checks numbers, counts and duplicate tensors.
  static Result<GgufSet> Create(std::vector<Gguf> files);

  GgufSet(GgufSet&&) noexcept = default;
  GgufSet& operator=(GgufSet&&) noexcept = default;

  const Gguf& metadata() const { return files_[0]; }
  size_t file_count() const { return files_.size(); }
  const Gguf& file(size_t index) const { return files_[index]; }
  size_t tensor_count() const { return by_name_.size(); }
  const GgufTensor* FindTensor(std::string_view name) const;
  // Calls visit(tensor) in file order, file by file.
  template <class Visit>
  void ForEachTensor(Visit&& visit) const {
    for (const Gguf& file : files_) {
      for (const GgufTensor& tensor : file.tensors()) visit(tensor);
    }
  }

 private:
  explicit GgufSet(std::vector<Gguf> files) : files_(std::move(files)) {}

  std::vector<Gguf> files_;
  std::vector<const GgufTensor*> by_name_;  // ascending
};

}  // namespace nonstop
