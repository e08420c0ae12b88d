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

#include "base/bytes.h"
#include "base/result.h"
#include "tensor/dtype.h"

namespace nonstop {

struct GgufLimits {
  uint64_t header_size_bytes = 256u << 20;  // metadata and tensor table together
  uint64_t metadata_count = 65'536;
  uint64_t tensor_count = 65'536;
  uint64_t array_length = 4u << 20;
  uint64_t key_size_bytes = 65'535;  // the specification's 2^16 - 1
  uint64_t tensor_name_size_bytes = 1'024;
  uint32_t array_nesting = 4;
};

enum class GgufType : uint32_t {
  kU8 = 0,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64,
};

struct GgufTensor {
  std::string name;
  DType dtype;
  uint32_t dimension_count;
  uint64_t dimensions[4];  // ggml's order: dimensions[0] is the length of a row; unused ones are 1
  uint64_t offset_bytes;   // from the start of this file
  uint64_t size_bytes;
  uint32_t file_index;  // of a split model

  uint64_t column_count() const { return dimensions[0]; }
  uint64_t row_count() const { return dimensions[1] * dimensions[2] * dimensions[3]; }
  uint64_t end_bytes() const { return offset_bytes + size_bytes; }
};

// A value where it stands in the header bytes. Views live as long as the Gguf that gave them.
struct GgufValue {
  GgufType type;
  GgufType element_type;             // of an array
  uint64_t element_count;            // of an array
  std::span<const std::byte> bytes;  // the value's own bytes (a string without its length)
};

// Walks an array of strings in place (vocabularies have 262,144).
class GgufStringArray {
 public:
  GgufStringArray() = default;
  GgufStringArray(std::span<const std::byte> bytes, uint64_t count)
      : bytes_(bytes), count_(count) {}
  uint64_t count() const { return count_; }
  // Calls visit(index, text) in order. The lengths were checked when the header was parsed.
  template <class Visit>
  void ForEach(Visit&& visit) const {
    const std::byte* next = bytes_.data();
    for (uint64_t index = 0; index < count_; ++index) {
      const auto size_bytes = static_cast<size_t>(LoadLe<uint64_t>(next));
      next += sizeof(uint64_t);
      visit(index, std::string_view(reinterpret_cast<const char*>(next), size_bytes));
      next += size_bytes;
    }
  }

 private:
  std::span<const std::byte> bytes_;
  uint64_t count_ = 0;
};

// One file's parsed header. Owns a copy of the metadata bytes.
class Gguf {
 public:
  Gguf() = default;
  Gguf(Gguf&&) noexcept = default;
  Gguf& operator=(Gguf&&) noexcept = default;

  uint32_t version() const { return version_; }
  uint32_t alignment() const { return alignment_; }
  // Where tensor data starts.
  uint64_t data_offset_bytes() const { return data_offset_bytes_; }
  // The least size that holds every tensor.
  uint64_t file_size_bytes() const { return file_size_bytes_; }
  // In file order (ascending offset).
  std::span<const GgufTensor> tensors() const { return tensors_; }
  const GgufTensor* FindTensor(std::string_view name) const;

  const GgufValue* Find(std::string_view key) const;
  // Absent key: nullopt. Wrong type: kMalformed. Any integer type converts when it fits.
  Result<std::optional<uint64_t>> FindUint(std::string_view key) const;
  // Takes integers too.
  Result<std::optional<double>> FindFloat(std::string_view key) const;
  Result<std::optional<bool>> FindBool(std::string_view key) const;
  Result<std::optional<std::string_view>> FindString(std::string_view key) const;
  Result<std::optional<GgufStringArray>> FindStringArray(std::string_view key) const;
  Result<std::optional<std::vector<float>>> FindFloatArray(std::string_view key) const;
  // Takes booleans too (0 and 1).
  Result<std::optional<std::vector<int32_t>>> FindIntArray(std::string_view key) const;
  size_t metadata_count() const { return metadata_.size(); }
  std::string_view KeyAt(size_t index) const { return metadata_[index].key; }
  const GgufValue& ValueAt(size_t index) const { return metadata_[index].value; }

 private:
  friend class GgufParser;
  friend class GgufSet;

  struct Metadata {
    std::string_view key;  // into header_
    GgufValue value;
  };

  std::vector<std::byte> header_;
  std::vector<Metadata> metadata_;   // in file order
  std::vector<uint32_t> key_order_;  // indices of metadata_, ascending by key
  std::vector<GgufTensor> tensors_;
  std::vector<uint32_t> name_order_;  // indices of tensors_, ascending by name
  uint32_t version_ = 0;
  uint32_t alignment_ = 32;
  uint64_t data_offset_bytes_ = 0;
  uint64_t file_size_bytes_ = 0;
};

// Says kUnsupportedType, with tensor and type, unless every tensor's type is computed here.
Status CheckComputable(const Gguf& gguf);

// Feeds on a file's first bytes as they arrive; knows when the header is complete.
// The outcome does not depend on how the bytes were cut into pieces.
class GgufParser {
 public:
  explicit GgufParser(GgufLimits limits = {}) : limits_(limits) {}

  // Appends the next bytes of the file. Returns true once the header is complete (surplus bytes
  // beyond the header are the caller's to keep: see header_size_bytes). Work is proportional to the
  // bytes added, not to the prefix so far. Recognises HTML, Git LFS pointers, zip, safetensors and
  // pickle by their first bytes and says so. After an error every call returns it again.
  Result<bool> Push(std::span<const std::byte> bytes);
  // No more bytes will come: the Error that says what is missing (or what the file is instead).
  Error Truncated() const;
  // Bytes from the file's start to the start of the tensor data, alignment padding included (a file
  // without tensors has none). Known once Push returned true; never more than was pushed.
  uint64_t header_size_bytes() const;
  // The real file size, when the host knows it: tensors past the end are then an error at once.
  Status CheckFileSize(uint64_t file_size_bytes) const;

  // The parsed header, once Push returned true. The parser is used up.
  Gguf Take();

 private:
  enum class Stage { kPreamble, kMetadata, kValue, kTensors, kPadding, kComplete };
  // false: the bytes at hand end inside the item; the parser stays where it was.
  using Progress = Result<bool>;

  // An array being walked. Strings and nested arrays are taken one by one, the rest at once.
  struct ArrayFrame {
    GgufType element_type;
    uint64_t remaining_count;
  };
  // A metadata entry by positions: the bytes still move when more come.
  struct Entry {
    size_t key_position;
    size_t key_size_bytes;
    GgufType type;
    GgufType element_type;
    uint64_t element_count;
    size_t value_position;
    size_t value_size_bytes;
  };

  Status ParseAll();
  Progress ParseStep();
  Progress ParsePreamble();
  Progress ParseMetadataStart();
  Progress ParseValue();
  Progress ParseString();
  Progress ParseFixedSize(GgufType type, uint64_t count);
  Progress ParseArray();
  Progress OpenNestedArray();
  Progress ParseTensor();
  Progress ParsePadding();
  Status PushFrame(uint32_t element_type_id, uint64_t count);
  Status CheckSize(const char* what, uint64_t size_bytes, size_t position) const;
  Status FinishEntry();
  Status FinishMetadata();
  Status ReadAlignment();
  Status FinishTensors();
  std::string KeyText() const;
  static Error OverLimit(const std::string& what, uint64_t value, uint64_t limit);

  GgufLimits limits_;
  std::optional<Error> error_;
  Stage stage_ = Stage::kPreamble;
  // The bytes from buffer_start_ on; the metadata leave it for gguf_ once they are whole.
  std::vector<std::byte> buffer_;
  uint64_t buffer_start_ = 0;
  size_t position_ = 0;  // in buffer_: the start of the item that is parsed next
  uint64_t metadata_total_ = 0;
  uint64_t tensor_total_ = 0;
  std::vector<Entry> entries_;
  std::vector<ArrayFrame> frames_;
  Gguf gguf_;
};

}  // namespace nonstop
