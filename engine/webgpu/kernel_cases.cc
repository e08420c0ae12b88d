#include "webgpu/kernel_cases.h"

#include <cstdio>

#include "base/bytes.h"
#include "base/check.h"

namespace nonstop {
namespace {

const char* AccessName(GpuAccess access) {
  switch (access) {
    case GpuAccess::kRead:
      return "read";
    case GpuAccess::kReadWrite:
      return "read_write";
    case GpuAccess::kUniform:
      return "uniform";
  }
  return "";
}

bool WriteFile(const std::string& path, const void* data, size_t size_bytes) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) return false;
  const bool is_written = std::fwrite(data, 1, size_bytes, file) == size_bytes;
  return std::fclose(file) == 0 && is_written;
}

}  // namespace

CaseBinding CaseParams(std::vector<uint32_t> words) {
  CHECK(words.size() <= 16);
  words.resize(16);
  return {.access = GpuAccess::kUniform, .bytes = BytesOf(words)};
}

CaseBinding CaseOutput(const std::vector<float>& before, const std::vector<float>& expected,
                       std::vector<float> tolerances) {
  CHECK(before.size() == expected.size() && before.size() == tolerances.size());
  return {.access = GpuAccess::kReadWrite,
          .bytes = BytesOf(before),
          .expected = BytesOf(expected),
          .is_f32 = true,
          .tolerances = std::move(tolerances)};
}

CaseBinding CaseOutput(const std::vector<uint32_t>& before, const std::vector<uint32_t>& expected) {
  CHECK(before.size() == expected.size());
  return {.access = GpuAccess::kReadWrite, .bytes = BytesOf(before), .expected = BytesOf(expected)};
}

uint64_t CaseWriter::Store(std::span<const std::byte> bytes) {
  data_.resize(RoundUp<size_t>(data_.size(), 16));
  const uint64_t offset = data_.size();
  data_.insert(data_.end(), bytes.begin(), bytes.end());
  return offset;
}

void CaseWriter::AddCase(const KernelCase& kernel_case) {
  if (kernel_case.name.find(filter_) == std::string::npos) return;
  CHECK(kernel_case.bindings.size() == kernel_case.kernel.bindings.size());
  ++case_count_;
  json_.BeginObject().Key("name").String(kernel_case.name);
  json_.Key("wgsl").String(kernel_case.kernel.wgsl).Key("bindings").BeginArray();
  for (size_t i = 0; i < kernel_case.bindings.size(); ++i) {
    const CaseBinding& binding = kernel_case.bindings[i];
    CHECK(binding.access == kernel_case.kernel.bindings[i] && !binding.bytes.empty());
    json_.BeginObject().Key("access").String(AccessName(binding.access));
    json_.Key("offset").Int(static_cast<int64_t>(Store(binding.bytes)));
    json_.Key("size").Int(static_cast<int64_t>(binding.bytes.size()));
    if (!binding.expected.empty()) {
      json_.Key("expected_offset").Int(static_cast<int64_t>(Store(binding.expected)));
      json_.Key("type").String(binding.is_f32 ? "f32" : "u32");
    }
    if (!binding.tolerances.empty()) {
      const uint64_t offset = Store(BytesOf(binding.tolerances));
      json_.Key("tolerance_offset").Int(static_cast<int64_t>(offset));
    }
    json_.EndObject();
  }
  json_.EndArray().Key("workgroups").BeginArray();
  for (uint32_t count : kernel_case.workgroups) json_.Int(count);
  json_.EndArray().EndObject();
}

bool CaseWriter::WriteTo(const std::string& folder) {
  json_.EndArray();
  const std::string text = json_.Take();
  return WriteFile(folder + "/cases.json", text.data(), text.size()) &&
         WriteFile(folder + "/cases.bin", data_.data(), data_.size());
}

}  // namespace nonstop
