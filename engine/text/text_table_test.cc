// The table against std::map, and its refusal of texts that were made to collide.
#include "text/text_table.h"

#include <gtest/gtest.h>

#include <map>

#include "base/format.h"

namespace nonstop {
namespace {

TEST(TextTable, FindsWhatWasAddedAndNothingElse) {
  TextTable table;
  std::map<std::string, uint32_t> expected;
  uint32_t state = 1;
  for (int i = 0; i < 5000; ++i) {
    state = state * 1664525u + 1013904223u;
    // Lengths around the 8 bytes that the hash takes at a time, zero bytes included.
    std::string text((state >> 8) % 20, '\0');
    for (char& c : text) c = static_cast<char>((state = state * 1664525u + 1u) >> 30);
    const auto added = table.Add(text);
    const bool is_new = expected.emplace(text, table.size() - 1).second;
    ASSERT_EQ(added, is_new ? TextTable::Added::kNew : TextTable::Added::kPresent);
  }
  ASSERT_EQ(table.size(), expected.size());
  for (const auto& [text, index] : expected) {
    EXPECT_EQ(table.Find(text), index);
    EXPECT_EQ(table[index], text);
    const bool longer_present = expected.contains(text + "x");
    if (!longer_present) EXPECT_EQ(table.Find(text + "x"), TextTable::kAbsent);
  }
}

TEST(TextTable, EmptyTableAndEmptyText) {
  TextTable table;
  EXPECT_EQ(table.Find(""), TextTable::kAbsent);
  EXPECT_EQ(table.Find("a"), TextTable::kAbsent);
  EXPECT_EQ(table.Add(""), TextTable::Added::kNew);
  EXPECT_EQ(table.Find(""), 0u);
}

// 6,000 texts that all want the first 16 of 8,192 slots (found by search, as an attacker would).
TEST(TextTable, RefusesCollidingTexts) {
  TextTable table;
  auto added = TextTable::Added::kNew;
  for (uint32_t i = 0; table.size() < 6'000 && added == TextTable::Added::kNew; ++i) {
    const std::string text = Format("%x", i);
    if ((HashText(text) & 8191) < 16) added = table.Add(text);
  }
  EXPECT_EQ(added, TextTable::Added::kTooManyCollisions);
  EXPECT_GE(table.size(), TextTable::kProbeLimit - 16);
}

}  // namespace
}  // namespace nonstop
