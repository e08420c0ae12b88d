// What is told of the GPU's time from submissions and their ends.
#include "webgpu/submission_pacer.h"

#include <gtest/gtest.h>

namespace nonstop {
namespace {

TEST(SubmissionPacerTest, NothingIsKnownAtFirst) {
  const SubmissionPacer pacer;
  EXPECT_EQ(pacer.RunUs(256), 0.0);
  EXPECT_EQ(SubmissionPacer::PieceCount(0.0), 1u);
}

TEST(SubmissionPacerTest, ARunLastsFromItsSubmissionOrTheEndOfTheOneBefore) {
  SubmissionPacer pacer;
  pacer.Submitted(1, 10, 1000.0);
  pacer.Submitted(2, 10, 1100.0);
  pacer.Ended(0, 1500.0);
  EXPECT_EQ(pacer.RunUs(10), 0.0);
  pacer.Ended(1, 3000.0);
  EXPECT_EQ(pacer.RunUs(10), 2000.0);
  pacer.Ended(2, 8000.0);  // it has waited for the first
  EXPECT_EQ(pacer.RunUs(10), 5000.0);
  pacer.Submitted(3, 5, 20'000.0);  // the GPU had nothing to do
  pacer.Ended(3, 21'000.0);
  EXPECT_EQ(pacer.RunUs(10), 2000.0);
}

TEST(SubmissionPacerTest, RunsThatAreSeenTogetherShareTheTime) {
  SubmissionPacer pacer;
  pacer.Submitted(1, 256, 0.0);
  pacer.Submitted(4, 44, 100.0);
  pacer.Ended(5, 30'000.0);
  EXPECT_DOUBLE_EQ(pacer.RunUs(300), 30'000.0);
}

TEST(SubmissionPacerTest, PiecesAreOfEightMillisecondsAtMost) {
  EXPECT_EQ(SubmissionPacer::PieceCount(8000.0), 1u);
  EXPECT_EQ(SubmissionPacer::PieceCount(8001.0), 2u);
  EXPECT_EQ(SubmissionPacer::PieceCount(24'000.0), 3u);
  EXPECT_EQ(SubmissionPacer::PieceCount(1e9), SubmissionPacer::kMostPieces);
}

}  // namespace
}  // namespace nonstop
