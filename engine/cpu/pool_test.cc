// The pool with real threads (natively; a wasm test has none and checks the serial path).
#include "cpu/pool.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace nonstop::cpu {
namespace {

struct Count {
  std::vector<std::atomic<uint32_t>> runs;
  explicit Count(size_t parts) : runs(parts) {}
};

void CountPart(void* context, uint32_t part) {
  static_cast<Count*>(context)->runs[part].fetch_add(1, std::memory_order_relaxed);
}

TEST(Pool, RunsEveryPartOnceWithoutWorkers) {
  Pool pool;
  Count count(5);
  pool.Run(CountPart, &count, 5);
  for (const auto& runs : count.runs) EXPECT_EQ(runs.load(), 1u);
}

#if !defined(__wasm__)

class Workers {
 public:
  Workers(Pool* pool, size_t thread_count) : pool_(*pool) {
    for (size_t i = 0; i < thread_count; ++i) {
      threads_.emplace_back([this] { pool_.WorkerLoop(); });
    }
    while (pool_.worker_count() < thread_count) std::this_thread::yield();
  }
  ~Workers() {
    pool_.Stop();
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  Pool& pool_;
  std::vector<std::thread> threads_;
};

TEST(Pool, RunsEveryPartOnceInEveryRun) {
  Pool pool;
  const Workers workers(&pool, 3);
  for (uint32_t parts : {1u, 2u, 3u, 4u, 7u, 255u}) {
    Count count(parts);
    for (int run = 0; run < 300; ++run) pool.Run(CountPart, &count, parts);
    for (const auto& runs : count.runs) EXPECT_EQ(runs.load(), 300u) << parts << " parts";
  }
}

// What one run wrote, the next one reads, whichever thread it ran on.
struct Chain {
  std::vector<uint64_t> values;
};

void AddNeighbour(void* context, uint32_t part) {
  auto& chain = *static_cast<Chain*>(context);
  chain.values[64 + part] = chain.values[(part + 1) % 64] + 1;
}
void CopyBack(void* context, uint32_t part) {
  auto& chain = *static_cast<Chain*>(context);
  chain.values[part] = chain.values[64 + part];
}

TEST(Pool, OrdersMemoryBetweenRuns) {
  Pool pool;
  const Workers workers(&pool, 2);
  Chain chain{std::vector<uint64_t>(128, 0)};
  for (int run = 0; run < 1000; ++run) {
    pool.Run(AddNeighbour, &chain, 64);
    pool.Run(CopyBack, &chain, 64);
  }
  for (size_t i = 0; i < 64; ++i) EXPECT_EQ(chain.values[i], 1000u);
}

TEST(Pool, GenerationsWrapAround) {
  Pool pool;
  const Workers workers(&pool, 1);
  Count count(2);
  constexpr uint32_t kRuns = 70'000;  // past the ticket's 16 bits
  for (uint32_t run = 0; run < kRuns; ++run) pool.Run(CountPart, &count, 2);
  EXPECT_EQ(count.runs[0].load(), kRuns);
  EXPECT_EQ(count.runs[1].load(), kRuns);
}

TEST(Pool, WorkersThatComeLateAreTaken) {
  Pool pool;
  Count count(4);
  pool.Run(CountPart, &count, 4);
  const Workers workers(&pool, 1);
  pool.Run(CountPart, &count, 4);
  for (const auto& runs : count.runs) EXPECT_EQ(runs.load(), 2u);
}

#endif

}  // namespace
}  // namespace nonstop::cpu
