// Kernel cases: kernels with their inputs and what must come out, written to a folder and played on
// a real WebGPU by tests/gpu/run_cases.mjs. A case is a row of data: the expected bytes come from
// plain C++ (cpu/reference, tensor/dequantize, f64 sums), sentinels around outputs included.
#pragma once

#include <array>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/json_writer.h"
#include "webgpu/kernel_source.h"

namespace nonstop {

struct CaseBinding {
  GpuAccess access = GpuAccess::kRead;
  std::vector<std::byte> bytes;
  // Compared after the dispatch; empty: not compared.
  std::vector<std::byte> expected = {};
  bool is_f32 = false;                 // how expected bytes are compared; else as u32, exactly
  std::vector<float> tolerances = {};  // of each f32; empty: exactly
};

template <class T>
std::vector<std::byte> BytesOf(std::span<const T> values) {
  const auto bytes = std::as_bytes(values);
  return {bytes.begin(), bytes.end()};
}
template <class T>
std::vector<std::byte> BytesOf(const std::vector<T>& values) {
  return BytesOf(std::span<const T>(values));
}

template <class T>
CaseBinding CaseInput(const std::vector<T>& values) {
  return {.access = GpuAccess::kRead, .bytes = BytesOf(values)};
}
// At most 16 words, zeros after them.
CaseBinding CaseParams(std::vector<uint32_t> words);
// `before`, `expected` and `tolerances` have one element each.
CaseBinding CaseOutput(const std::vector<float>& before, const std::vector<float>& expected,
                       std::vector<float> tolerances);
CaseBinding CaseOutput(const std::vector<uint32_t>& before, const std::vector<uint32_t>& expected);

struct KernelCase {
  std::string name;
  KernelSource kernel;
  std::vector<CaseBinding> bindings = {};  // one for each of the kernel's
  std::array<uint32_t, 3> workgroups = {1, 1, 1};
};

class CaseWriter {
 public:
  // Cases whose name does not contain `filter` are left out.
  explicit CaseWriter(std::string filter) : filter_(std::move(filter)) { json_.BeginArray(); }

  void AddCase(const KernelCase& kernel_case);
  // Writes cases.json and cases.bin.
  bool WriteTo(const std::string& folder);
  uint32_t case_count() const { return case_count_; }

 private:
  uint64_t Store(std::span<const std::byte> bytes);

  std::string filter_;
  JsonWriter json_;
  std::vector<std::byte> data_;
  uint32_t case_count_ = 0;
};

// Each lies in its own *_cases.cc.
void AddPackCases(CaseWriter& writer);
void AddRowsCases(CaseWriter& writer);
void AddAttentionCases(CaseWriter& writer);
void AddProductCases(CaseWriter& writer);
void AddSamplingCases(CaseWriter& writer);

}  // namespace nonstop
