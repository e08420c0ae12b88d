// Arbitrary bytes as blocks of every computed type: no read or write outside the row, and the same
// floats whether blocks are taken one by one or as a row.
// The first byte of the input chooses the type.
#include <cstring>
#include <vector>

#include "base/check.h"
#include "tensor/dequantize.h"

namespace nonstop {
namespace {

std::vector<DType> ComputedTypes() {
  std::vector<DType> types;
  for (const DTypeInfo& info : AllDTypes()) {
    if (info.is_computed) types.push_back(info.dtype);
  }
  return types;
}

void TestOneInput(const uint8_t* data, size_t size) {
  static const std::vector<DType> types = ComputedTypes();
  if (size == 0) return;
  const DTypeInfo& info = GetDType(types[data[0] % types.size()]);
  const size_t block_count = (size - 1) / info.block_size_bytes;
  // An allocation of exactly the row, at an odd address, so that any step outside is noticed.
  std::vector<std::byte> bytes(1 + block_count * info.block_size_bytes);
  std::byte* blocks = bytes.data() + 1;
  std::memcpy(blocks, data + 1, bytes.size() - 1);
  std::vector<float> row(block_count * info.block_length);
  DequantizeRow(info.dtype, blocks, static_cast<uint32_t>(row.size()), row.data());
  std::vector<float> block(info.block_length);
  for (size_t i = 0; i < block_count; ++i) {
    DequantizeRow(info.dtype, blocks + i * info.block_size_bytes, info.block_length, block.data());
    CHECK(std::memcmp(block.data(), row.data() + i * info.block_length,
                      block.size() * sizeof(float)) == 0);
  }
}

}  // namespace
}  // namespace nonstop

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  nonstop::TestOneInput(data, size);
  return 0;
}
