// Threads that share the parts of a step. A fork-join over parts that are claimed one by one: a
// thread that is late, or was never started, costs nothing but its help; the caller takes the parts
// itself. The engine knows no threads API: the host starts threads that call WorkerLoop. Workers
// spin for a while, then sleep in the memory until the next run.
#pragma once

#include <atomic>
#include <cstdint>

namespace nonstop::cpu {

class Pool {
 public:
  using Job = void (*)(void* context, uint32_t part);

  // Calls job(context, part) for every part < part_count, on this thread and on workers; returns
  // when all have ended. part_count <= 255.
  void Run(Job job, void* context, uint32_t part_count);

  void WorkerLoop();  // of a host's thread; returns after Stop
  void Stop();        // wakes and ends all workers
  // Says that a worker's thread has died (its host saw a trap): Run then stops the module with it.
  void ReportDeath() { has_died_.store(1, std::memory_order_release); }
  uint32_t worker_count() const { return worker_count_.load(std::memory_order_acquire); }

 private:
  bool ClaimAndRun();
  void WaitForWork(uint32_t seen);

  // generation << 16 | part count << 8 | next part to claim: all that a claim depends on is in one
  // word, so a claim can only succeed on the run that is published now.
  alignas(64) std::atomic<uint32_t> ticket_{0};
  alignas(64) std::atomic<uint32_t> done_count_{0};
  alignas(64) std::atomic<uint32_t> sleeper_count_{0};
  std::atomic<uint32_t> worker_count_{0};
  std::atomic<uint32_t> stopping_{0};
  std::atomic<uint32_t> has_died_{0};
  // Written before the ticket that publishes them; read only by who has claimed a part.
  Job job_ = nullptr;
  void* context_ = nullptr;
};

}  // namespace nonstop::cpu
