// Pacing with times that are told to it.
#include "cpu/pacing.h"

#include <gtest/gtest.h>

namespace nonstop::cpu {
namespace {

TEST(ChunkPacer, StartsSmallWithLargeStepsAndGrowsToTheMost) {
  ChunkPacer pacer(64, 30'000'000);
  EXPECT_EQ(pacer.row_count(), 4u);
  for (int i = 0; i < 6; ++i) pacer.Observe(pacer.row_count(), 1'000);
  EXPECT_EQ(pacer.row_count(), 64u);
  EXPECT_EQ(ChunkPacer(64, 1'000).row_count(), 64u);
}

TEST(ChunkPacer, ShrinksByTheLongestStep) {
  ChunkPacer pacer(64, 1);
  pacer.Observe(64, 40'000);
  EXPECT_EQ(pacer.row_count(), 24u);
  pacer.Observe(24, 14'000);
  EXPECT_EQ(pacer.row_count(), 24u);
  pacer.Observe(24, 10'000'000);
  EXPECT_EQ(pacer.row_count(), 4u) << "what a kernel takes at once";
  ChunkPacer few(2, 1);
  few.Observe(2, 40'000);
  EXPECT_EQ(few.row_count(), 2u);
}

TEST(ChunkPacer, AShortLastChunkSaysNothingAboutGrowth) {
  ChunkPacer pacer(64, 1);
  pacer.Observe(64, 40'000);
  pacer.Observe(3, 100);
  EXPECT_EQ(pacer.row_count(), 24u);
}

// One run of 30 layers at `now_us`; time_of(threads) is what a step takes.
template <class TimeOf>
void RunLayers(ThreadPacer* pacer, double now_us, TimeOf&& time_of) {
  pacer->BeginRun(now_us);
  for (int i = 0; pacer->is_trying() && i < 30; ++i) {
    pacer->Observe(time_of(pacer->ThreadsOfSample()));
  }
  pacer->EndRun();
}

TEST(ThreadPacer, KeepsAllThreadsWhileTheyHelp) {
  ThreadPacer pacer(4);
  for (int i = 0; i < 1000; ++i) {
    RunLayers(&pacer, i * 10'000.0, [](uint32_t threads) { return 100.0 / threads; });
    EXPECT_EQ(pacer.thread_count(), 4u);
  }
}

TEST(ThreadPacer, DropsWithinASecondWhenCoresAreTakenAndComesBack) {
  ThreadPacer pacer(2);
  double now_us = 0;
  const auto taken = [](uint32_t threads) { return threads == 2 ? 300.0 : 100.0; };
  const auto free = [](uint32_t threads) { return 100.0 / threads; };
  for (; now_us < 1e6; now_us += 10'000) RunLayers(&pacer, now_us, free);
  EXPECT_EQ(pacer.thread_count(), 2u);
  for (; now_us < 2e6; now_us += 10'000) RunLayers(&pacer, now_us, taken);
  EXPECT_EQ(pacer.thread_count(), 1u);
  for (; now_us < 3e6; now_us += 10'000) RunLayers(&pacer, now_us, free);
  EXPECT_EQ(pacer.thread_count(), 2u);
}

TEST(ThreadPacer, FindsTheBestOfSeveral) {
  ThreadPacer pacer(8);
  for (int i = 0; i < 300; ++i) {
    RunLayers(&pacer, i * 10'000.0,
              [](uint32_t threads) { return threads > 2 ? 75.0 : 100.0 / threads; });
  }
  EXPECT_EQ(pacer.thread_count(), 2u);
}

TEST(ThreadPacer, OneHiccupChangesNothing) {
  ThreadPacer pacer(2);
  int hiccup = 0;
  for (int i = 0; i < 200; ++i) {
    RunLayers(&pacer, i * 10'000.0, [&](uint32_t threads) {
      return threads == 2 && ++hiccup == 40 ? 9'000.0 : 100.0 / threads;
    });
    EXPECT_EQ(pacer.thread_count(), 2u);
  }
}

TEST(ThreadPacer, OneThreadNeverTries) {
  ThreadPacer pacer(1);
  pacer.BeginRun(1e9);
  EXPECT_FALSE(pacer.is_trying());
}

TEST(ThreadPacer, FewSamplesDecideNothing) {
  ThreadPacer pacer(2);
  for (int i = 0; i < 100; ++i) {
    pacer.BeginRun(i * 1e6);
    for (int layer = 0; layer < 4; ++layer) {
      pacer.Observe(pacer.ThreadsOfSample() == 2 ? 300.0 : 100.0);
    }
    pacer.EndRun();
  }
  EXPECT_EQ(pacer.thread_count(), 2u);
}

}  // namespace
}  // namespace nonstop::cpu
