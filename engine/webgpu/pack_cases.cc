// Cases of pack*.wgsl: random bytes of every type, any row count and byte alignment.
#include "base/bytes.h"
#include "base/format.h"
#include "base/test_random.h"
#include "webgpu/kernel_cases.h"
#include "webgpu/weight_layout.h"

namespace nonstop {
namespace {

constexpr uint32_t kSentinel = 0xdeadbeef;

struct PackShape {
  uint32_t row_count;
  uint32_t column_count;
  uint32_t raw_offset;
};

void AddPackCase(CaseWriter& writer, DType dtype, const PackShape& shape) {
  const size_t raw_size =
      static_cast<size_t>(RowSizeBytes(dtype, shape.column_count)) * shape.row_count;
  // A word more than the rows: what the kernel must not look into.
  std::vector<uint32_t> raw(DivideRoundUp<size_t>(shape.raw_offset + raw_size, 4) + 1);
  Lcg random{raw_size};
  for (uint32_t& word : raw) word = static_cast<uint32_t>(random.Fraction() * 0x1p32);

  const uint32_t first = 8;  // packed words before the rows
  const size_t packed_words =
      static_cast<size_t>(GpuMatrixSizeBytes(dtype, shape.row_count, shape.column_count)) / 4;
  std::vector<uint32_t> before(first + packed_words + 8, kSentinel);
  std::vector<uint32_t> expected = before;
  PackGpuRows(dtype, reinterpret_cast<const std::byte*>(raw.data()) + shape.raw_offset,
              shape.row_count, shape.column_count,
              reinterpret_cast<std::byte*>(expected.data() + first));

  const std::array<uint32_t, 16> params =
      PackParams(dtype, shape.column_count, shape.row_count, shape.raw_offset, first);
  const auto workgroups = DivideRoundUp(static_cast<uint32_t>(packed_words), kPackWorkgroupWords);
  writer.AddCase({.name = Format("pack %s %ux%u at %u", GetDType(dtype).name, shape.row_count,
                                 shape.column_count, shape.raw_offset),
                  .kernel = MakePackKernel(dtype),
                  .bindings = {CaseInput(raw), CaseOutput(before, expected),
                               CaseParams({params.begin(), params.end()})},
                  .workgroups = {workgroups, 1, 1}});
}

}  // namespace

void AddPackCases(CaseWriter& writer) {
  for (const DTypeInfo& info : AllDTypes()) {
    if (!info.is_computed) continue;
    const uint32_t block = info.block_length == 1 ? 1 : info.block_length;
    AddPackCase(writer, info.dtype, {1, block == 1 ? 32 : block, 0});
    AddPackCase(writer, info.dtype, {8, 3 * (block == 1 ? 31 : block), 1});
    AddPackCase(writer, info.dtype, {13, 3 * (block == 1 ? 31 : block), 2});
    AddPackCase(writer, info.dtype, {21, 5 * (block == 1 ? 32 : block), 3});
  }
}

}  // namespace nonstop
