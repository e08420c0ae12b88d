// Result, the macros and the error names.
#include "base/result.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>

namespace nonstop {
namespace {

Result<std::unique_ptr<int>> MakeInt(int value) {
  if (value < 0)
    return MakeError(ErrorCode::kInvalidArgument, "The value (%d) is negative.", value);
  return std::make_unique<int>(value);
}

Result<int> Twice(int value) {
  ASSIGN_OR_RETURN(const std::unique_ptr<int> number, MakeInt(value));
  return *number * 2;
}

Status CheckTwice(int value) {
  TRY(Twice(value));
  return {};
}

TEST(Result, AMovedErrorLeavesNothingToDestroy) {
  Result<std::unique_ptr<int>> first = MakeError(ErrorCode::kNotFound, "Not there.");
  Result<std::unique_ptr<int>> second = std::move(first);
  EXPECT_FALSE(first.ok());
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().message, "Not there.");
  second = Result<std::unique_ptr<int>>(std::make_unique<int>(5));
  EXPECT_EQ(**second, 5);
}

TEST(Result, HoldsAMoveOnlyValue) {
  Result<std::unique_ptr<int>> result = MakeInt(7);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(**result, 7);
  Result<std::unique_ptr<int>> moved = std::move(result);
  EXPECT_EQ(**moved, 7);
  EXPECT_TRUE(result.ok());  // still a value, moved from
  EXPECT_EQ(*result, nullptr);
  const std::unique_ptr<int> taken = *std::move(moved);
  EXPECT_EQ(*taken, 7);
}

TEST(Result, AssignmentReplacesValueByErrorAndBack) {
  Result<std::unique_ptr<int>> result = MakeInt(1);
  result = MakeInt(-1);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(result.error().message, "The value (-1) is negative.");
  result = MakeInt(2);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(**result, 2);
}

TEST(Result, MacrosPassTheErrorOn) {
  EXPECT_EQ(*Twice(21), 42);
  EXPECT_EQ(Twice(-3).error().message, "The value (-3) is negative.");
  EXPECT_TRUE(CheckTwice(1).ok());
  EXPECT_EQ(CheckTwice(-4).error().message, "The value (-4) is negative.");
}

TEST(Result, ContextStandsInFront) {
  const Error error =
      MakeError(ErrorCode::kTruncated, "It ends at byte (%d).", 5).With("Model \"x.gguf\"");
  EXPECT_EQ(error.code, ErrorCode::kTruncated);
  EXPECT_EQ(error.message, "Model \"x.gguf\": It ends at byte (5).");
}

TEST(Result, EveryCodeHasItsOwnName) {
  std::set<std::string> names;
  const int last = static_cast<int>(ErrorCode::kWrongState);
  for (int code = 1; code <= last; ++code) {
    names.insert(ErrorCodeName(static_cast<ErrorCode>(code)));
  }
  EXPECT_EQ(names.size(), static_cast<size_t>(last));
  EXPECT_STREQ(ErrorCodeName(ErrorCode::kNotGguf), "not_gguf");
}

}  // namespace
}  // namespace nonstop
