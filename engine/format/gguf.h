// GGUF v2 and v3: the header (metadata and tensor table), parsed from a growing prefix of the file.
// Goals: every length, offset, count, string and nesting is checked against the bytes that are
// there and against limits; nothing is allocated on the word of a count; split files.
// Non-goals: GGUF v1, big-endian files, writing.
// Source: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tensor/dtype.h"

namespace nonstop {

struct GgufLimits {
  uint64_t header_size_bytes = 256u << 20;  // metadata and tensor table together
  uint64_t metadata_count = 65'536;
  uint64_t tensor_count = 65'536;
  uint64_t array_length = 4u << 20;
  uint64_t key_size_bytes = 65'535;          // the specification's 2^16 - 1
  uint64_t tensor_name_size_bytes = 1'024;
  uint32_t array_nesting = 4;
};

enum class GgufType : uint32_t {
  kU8 = 0, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kString, kArray, kU64, kI64, kF64,
};

struct GgufTensor {
  std::string name;
  DType dtype;
  uint32_t dimension_count;
  uint64_t dimensions[4];     // ggml's order: dimensions[0] is the length of a row
  uint64_t offset_bytes;      // from the start of this file
  uint64_t size_bytes;
  uint32_t file_index;        // of a split model

  uint64_t column_count() const { return dimensions[0]; }
  uint64_t row_count() const { return dimensions[1] * dimensions[2] * dimensions[3]; }
};

// A value where it stands in the header bytes. Views live as long as the Gguf that gave them.
struct GgufValue {
  GgufType type;
  GgufType element_type;              // of an array
  uint64_t element_count;             // of an array
  std::span<const std::byte> bytes;   // the value's own bytes (a string without its length)
};

// Walks an array of strings in place (vocabularies have 262,144).
class GgufStringArray {
 public:
  GgufStringArray() = default;
  GgufStringArray(std::span<const std::byte> bytes, uint64_t count) : bytes_(bytes), count_(count) {}
  uint64_t count() const { return count_; }
  // Calls visit(index, text) in order. The lengths were checked when the header was parsed.
  template <class Visit>
  void ForEach(Visit&& visit) const;

 private:
  std::span<const std::byte> bytes_;
  uint64_t count_ = 0;
};

// One file's parsed header. Owns a copy of the metadata bytes.
class Gguf {
 public:
  uint32_t version() const;
  uint32_t alignment() const;
  uint64_t data_offset_bytes() const;  // where tensor data starts
  uint64_t file_size_bytes() const;    // the least size that holds every tensor
  std::span<const GgufTensor> tensors() const;  // in file order (ascending offset)
  const GgufTensor* FindTensor(std::string_view name) const;

  const GgufValue* Find(std::string_view key) const;
  // Absent key: nullopt. Wrong type: kMalformed. Any integer type converts when it fits.
  Result<std::optional<uint64_t>> FindUint(std::string_view key) const;
  Result<std::optional<double>> FindFloat(std::string_view key) const;
  Result<std::optional<bool>> FindBool(std::string_view key) const;
  Result<std::optional<std::string_view>> FindString(std::string_view key) const;
  Result<std::optional<GgufStringArray>> FindStringArray(std::string_view key) const;
  Result<std::optional<std::vector<float>>> FindFloatArray(std::string_view key) const;
  Result<std::optional<std::vector<int32_t>>> FindIntArray(std::string_view key) const;
  size_t metadata_count() const;
  std::string_view KeyAt(size_t index) const;
  const GgufValue& ValueAt(size_t index) const;
};

// Feeds on a file's first bytes as they arrive; knows when the header is complete.
class GgufParser {
 public:
  explicit GgufParser(GgufLimits limits = {});

  // Appends the next bytes of the file. Returns true once the header is complete (surplus bytes
  // beyond the header are the caller's to keep: see header_size_bytes). Work is proportional to the
  // bytes added, not to the prefix so far. Recognises HTML, Git LFS pointers, zip, safetensors and
  // pickle by their first bytes and says so.
  Result<bool> Push(std::span<const std::byte> bytes);
  // No more bytes will come: the Error that says what is missing (or what the file is instead).
  Error Truncated() const;
  // Bytes from the file's start to the start of the tensor data, alignment padding included.
  uint64_t header_size_bytes() const;
  // The real file size, when the host knows it: tensors past the end are then an error at once.
  Status CheckFileSize(uint64_t file_size_bytes) const;

  Gguf Take();
};

}  // namespace nonstop
