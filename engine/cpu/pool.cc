#include "cpu/pool.h"

#include "base/check.h"
#include "port/wait.h"

namespace nonstop::cpu {
namespace {

// About 10 us of spinning: longer than a gap between steps, shorter than a gap between pumps.
constexpr uint32_t kSpinLimit = 20'000;

constexpr uint32_t kMaxPartCount = 255;

uint32_t MakeTicket(uint32_t generation, uint32_t part_count) {
  return generation << 16 | part_count << 8;
}
uint32_t Generation(uint32_t ticket) { return ticket >> 16; }
uint32_t PartCount(uint32_t ticket) { return (ticket >> 8) & 0xff; }
uint32_t NextPart(uint32_t ticket) { return ticket & 0xff; }

}  // namespace

// Claims and runs parts until the published run has none left; false if there was none.
bool Pool::ClaimAndRun() {
  bool has_run = false;
  uint32_t ticket = ticket_.load(std::memory_order_acquire);
  while (NextPart(ticket) < PartCount(ticket)) {
    if (!ticket_.compare_exchange_weak(ticket, ticket + 1, std::memory_order_acq_rel)) continue;
    job_(context_, NextPart(ticket));
    done_count_.fetch_add(1, std::memory_order_acq_rel);
    has_run = true;
    ticket = ticket_.load(std::memory_order_acquire);
  }
  return has_run;
}

void Pool::Run(Job job, void* context, uint32_t part_count) {
  CHECK(part_count > 0 && part_count <= kMaxPartCount);
  if (part_count == 1 || worker_count() == 0) {
    for (uint32_t part = 0; part < part_count; ++part) job(context, part);
    return;
  }
  const uint32_t generation = Generation(ticket_.load(std::memory_order_relaxed)) + 1;
  job_ = job;
  context_ = context;
  done_count_.store(0, std::memory_order_relaxed);
  ticket_.store(MakeTicket(generation, part_count), std::memory_order_seq_cst);
  if (sleeper_count_.load(std::memory_order_seq_cst) > 0) WakeAll(ticket_);
  ClaimAndRun();
  while (done_count_.load(std::memory_order_acquire) != part_count) {
    CHECK(has_died_.load(std::memory_order_acquire) == 0);
    SpinPause();
  }
}

void Pool::WaitForWork(uint32_t seen) {
  for (uint32_t i = 0; i < kSpinLimit; ++i) {
    if (ticket_.load(std::memory_order_acquire) != seen) return;
    if (stopping_.load(std::memory_order_acquire) != 0) return;
  }
  sleeper_count_.fetch_add(1, std::memory_order_seq_cst);
  if (ticket_.load(std::memory_order_seq_cst) == seen) WaitForChange(ticket_, seen);
  sleeper_count_.fetch_sub(1, std::memory_order_seq_cst);
}

void Pool::WorkerLoop() {
  worker_count_.fetch_add(1, std::memory_order_acq_rel);
  while (stopping_.load(std::memory_order_acquire) == 0) {
    const uint32_t ticket = ticket_.load(std::memory_order_acquire);
    if (!ClaimAndRun()) WaitForWork(ticket);
  }
  worker_count_.fetch_sub(1, std::memory_order_acq_rel);
}

void Pool::Stop() {
  stopping_.store(1, std::memory_order_seq_cst);
  // A changed ticket without parts: wakes sleepers, gives nobody work.
  const uint32_t generation = Generation(ticket_.load(std::memory_order_relaxed)) + 1;
  ticket_.store(MakeTicket(generation, 0), std::memory_order_seq_cst);
  WakeAll(ticket_);
}

}  // namespace nonstop::cpu
