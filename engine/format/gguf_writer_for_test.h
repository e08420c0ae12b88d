// For tests and fuzzers only: builds GGUF files byte by byte, right or deliberately wrong.
// Every field can be written by itself (Raw, Text), so that a test can lie about any length.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "format/gguf.h"

namespace nonstop {

class GgufWriterForTest {
 public:
  struct Tensor {
    std::string name;
    std::vector<uint64_t> dimensions;
    uint32_t type_id = 0;
    uint64_t offset_bytes = 0;  // relative to the tensor data
  };

  uint32_t version = 3;
  uint32_t alignment = 32;  // what the data is padded to; write the key with U32 if not 32
  std::string magic = "GGUF";
  // Written in place of the true counts.
  std::optional<uint64_t> metadata_count;
  std::optional<uint64_t> tensor_count;

  // Metadata, in the order of the calls.
  template <class T>
  GgufWriterForTest& Number(std::string_view key, GgufType type, T value) {
    StartValue(key, type);
    Append(metadata_, value);
    return *this;
  }
  GgufWriterForTest& U32(std::string_view key, uint32_t value) {
    return Number(key, GgufType::kU32, value);
  }
  GgufWriterForTest& F32(std::string_view key, float value) {
    return Number(key, GgufType::kF32, value);
  }
  GgufWriterForTest& Bool(std::string_view key, uint8_t value) {
    return Number(key, GgufType::kBool, value);
  }
  GgufWriterForTest& String(std::string_view key, std::string_view value) {
    StartValue(key, GgufType::kString);
    AppendText(metadata_, value);
    return *this;
  }
  template <class T>
  GgufWriterForTest& Array(std::string_view key, GgufType type, const std::vector<T>& values) {
    StartArray(key, type, values.size());
    for (const T& value : values) Append(metadata_, value);
    return *this;
  }
  GgufWriterForTest& Strings(std::string_view key, const std::vector<std::string>& values) {
    StartArray(key, GgufType::kString, values.size());
    for (const std::string& value : values) AppendText(metadata_, value);
    return *this;
  }
  // The head of an array whose elements follow by Raw or Text.
  GgufWriterForTest& StartArray(std::string_view key, GgufType type, uint64_t count) {
    StartValue(key, GgufType::kArray);
    Append(metadata_, static_cast<uint32_t>(type));
    Append(metadata_, count);
    return *this;
  }
  GgufWriterForTest& StartValue(std::string_view key, GgufType type) {
    ++written_count_;
    AppendText(metadata_, key);
    Append(metadata_, static_cast<uint32_t>(type));
    return *this;
  }
  template <class T>
  GgufWriterForTest& Raw(T value) {
    Append(metadata_, value);
    return *this;
  }
  GgufWriterForTest& Text(std::string_view text) {
    AppendText(metadata_, text);
    return *this;
  }

  // A tensor behind the last one, aligned.
  GgufWriterForTest& Add(std::string_view name, DType dtype, std::vector<uint64_t> dimensions) {
    uint64_t size_bytes = RowSizeBytes(dtype, dimensions.empty() ? 1 : dimensions[0]);
    for (size_t i = 1; i < dimensions.size(); ++i) size_bytes *= dimensions[i];
    AddAt({std::string(name), std::move(dimensions), static_cast<uint32_t>(dtype), data_end_});
    data_end_ = RoundUp<uint64_t>(data_end_ + size_bytes, alignment);
    return *this;
  }
  // A tensor with any fields at all.
  GgufWriterForTest& AddAt(Tensor tensor) {
    tensors_.push_back(std::move(tensor));
    return *this;
  }

  std::vector<std::byte> Header() const {
    std::vector<std::byte> out;
    for (const char c : magic) Append(out, c);
    Append(out, version);
    Append(out, tensor_count.value_or(tensors_.size()));
    Append(out, metadata_count.value_or(written_count_));
    out.insert(out.end(), metadata_.begin(), metadata_.end());
    for (const Tensor& tensor : tensors_) {
      AppendText(out, tensor.name);
      Append(out, static_cast<uint32_t>(tensor.dimensions.size()));
      for (const uint64_t dimension : tensor.dimensions) Append(out, dimension);
      Append(out, tensor.type_id);
      Append(out, tensor.offset_bytes);
    }
    if (!tensors_.empty()) out.resize(RoundUp<size_t>(out.size(), alignment));
    return out;
  }
  // Header and data; data byte i is i modulo 251.
  std::vector<std::byte> File() const {
    std::vector<std::byte> out = Header();
    for (uint64_t i = 0; i < data_end_; ++i) out.push_back(static_cast<std::byte>(i % 251));
    return out;
  }

 private:
  template <class T>
  static void Append(std::vector<std::byte>& out, T value) {
    const size_t size = out.size();
    out.resize(size + sizeof(T));
    StoreLe(out.data() + size, value);
  }
  static void AppendText(std::vector<std::byte>& out, std::string_view text) {
    Append<uint64_t>(out, text.size());
    for (const char c : text) Append(out, c);
  }

  std::vector<std::byte> metadata_;
  std::vector<Tensor> tensors_;
  uint64_t written_count_ = 0;
  uint64_t data_end_ = 0;
};

}  // namespace nonstop
