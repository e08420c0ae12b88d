// Speed of the build's matrix product for each type, as JSON lines: one token (GB/s of packed
// weights, GOP/s) and 64 tokens; packing too. Natively or as a WASI command.
//   matmul_bench [TYPE...]    all computed types by default
#include <cstdio>
#include <cstring>
#include <ctime>

#include "cpu/matmul_testing.h"

namespace nonstop::cpu {
namespace {

constexpr double kBatchSeconds = 0.002;
constexpr int kBatchCount = 120;

struct Shape {
  uint32_t row_count, column_count;
};
constexpr Shape kShapes[] = {{1536, 576}, {576, 1536}, {2048, 2048}};

double Now() {
  timespec time = {};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Seconds of one call: the best of several batches.
template <class Function>
double Measure(Function function) {
  function();
  double begin = Now();
  function();
  const int count = static_cast<int>(kBatchSeconds / (Now() - begin + 1e-9)) + 1;
  double best = 1e9;
  for (int batch = 0; batch < kBatchCount; ++batch) {
    begin = Now();
    for (int i = 0; i < count; ++i) function();
    best = std::fmin(best, (Now() - begin) / count);
  }
  return best;
}

void Benchmark(const Target& target, DType dtype, const Shape& shape, uint32_t token_count) {
  TestRandom random(1);
  const ActivationType type = ChooseActivation(dtype, ActivationType::kQ8);
  const auto raw = RandomRows(dtype, shape.row_count, shape.column_count, random);
  const auto x = RandomActivations(size_t{token_count} * shape.column_count, random);
  PackedRows rows = PackFor(target, dtype, raw, shape.row_count, shape.column_count);
  const double pack_seconds = Measure([&] {
    target.pack(dtype, raw.data(), 0, shape.row_count, shape.column_count, rows.buffer.data());
  });
  const PreparedTokens tokens = PrepareFor(target, type, x, shape.column_count);
  std::vector<float> y(size_t{shape.row_count} * token_count);
  const double seconds = Measure([&] {
    target.matmul(rows.matrix, 0, shape.row_count, tokens.activations, y.data(), shape.row_count);
  });
  const double operations = 2.0 * shape.row_count * shape.column_count * token_count;
  std::printf(
      "{\"kernel\":\"matmul\",\"target\":\"%s\",\"type\":\"%s\",\"rows\":%u,\"columns\":%u,"
      "\"tokens\":%u,\"microseconds\":%.2f,\"gop_s\":%.1f,\"gb_s\":%.2f,\"pack_mb_s\":%.0f}\n",
      target.name, GetDType(dtype).name, shape.row_count, shape.column_count, token_count,
      seconds * 1e6, operations / seconds * 1e-9,
      static_cast<double>(rows.buffer.size_bytes()) / seconds * 1e-9,
      static_cast<double>(raw.size()) / pack_seconds * 1e-6);
  std::fflush(stdout);
}

}  // namespace
}  // namespace nonstop::cpu

int main(int argument_count, char** arguments) {
  using namespace nonstop;
  for (DType dtype : cpu::kComputedTypes) {
    bool is_wanted = argument_count < 2;
    for (int i = 1; i < argument_count; ++i) {
      is_wanted = is_wanted || std::strcmp(arguments[i], GetDType(dtype).name) == 0;
    }
    if (!is_wanted) continue;
    for (const cpu::Shape& shape : cpu::kShapes) {
      if (shape.column_count % GetDType(dtype).block_length != 0) continue;
      for (uint32_t token_count : {1u, 2u, 64u}) {
        cpu::Benchmark(cpu::TargetOf<cpu::vec::Native>(), dtype, shape, token_count);
        if constexpr (cpu::vec::NativePairs::kPairDot) {
          cpu::Benchmark(cpu::TargetOf<cpu::vec::NativePairs>(), dtype, shape, token_count);
        }
      }
    }
  }
  return 0;
}
