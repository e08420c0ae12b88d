// The partition against a naive one that does what llama.cpp's tokenizer_st_partition says: for
// each token, the longest first, cut every stretch of text at its occurrences.
#include "text/special_tokens.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <list>

#include "text/tokenizer_for_test.h"

namespace nonstop {
namespace {

Vocabulary MakeVocabulary(const TestPieces& pieces, std::string_view name = "") {
  TokenizerSpec spec = pieces.Spec();
  spec.general_name = name;
  auto vocabulary = Vocabulary::Create(spec, {});
  CHECK(vocabulary.ok());
  return std::move(vocabulary).value();
}

std::vector<TokenId> LongestFirst(const Vocabulary& vocabulary, bool parse_special) {
  std::vector<TokenId> ids;
  for (TokenId id = 0; id < static_cast<TokenId>(vocabulary.size()); ++id) {
    const bool special = vocabulary.Has(id, TokenAttribute::kSpecial);
    if (special ? parse_special : vocabulary.Has(id, TokenAttribute::kUserDefined)) {
      ids.push_back(id);
    }
  }
  std::sort(ids.begin(), ids.end(), [&](TokenId a, TokenId b) {
    const size_t size_a = vocabulary.text(a).size();
    const size_t size_b = vocabulary.text(b).size();
    return size_a != size_b ? size_a > size_b : a < b;
  });
  return ids;
}

std::vector<TextFragment> NaivePartition(const Vocabulary& vocabulary, std::string_view text,
                                         bool parse_special) {
  std::list<TextFragment> fragments;
  if (!text.empty()) fragments.push_back({kNoToken, 0, static_cast<uint32_t>(text.size())});
  for (const TokenId id : LongestFirst(vocabulary, parse_special)) {
    const std::string_view token = vocabulary.text(id);
    for (auto it = fragments.begin(); it != fragments.end(); ++it) {
      if (it->id != kNoToken) continue;
      const size_t match = text.substr(0, it->end).find(token, it->begin);
      if (match == std::string_view::npos) continue;
      const auto begin = static_cast<uint32_t>(match);
      const auto end = static_cast<uint32_t>(match + token.size());
      uint32_t right = end;
      while (vocabulary.Has(id, TokenAttribute::kStripRight) && right < it->end &&
             std::isspace(static_cast<unsigned char>(text[right]))) {
        ++right;
      }
      if (begin > it->begin) fragments.insert(it, {kNoToken, it->begin, begin});
      fragments.insert(it, {id, begin, end});
      if (right < it->end) fragments.insert(it, {kNoToken, right, it->end});
      it = std::prev(fragments.erase(it));
      if (it->id == kNoToken) --it;  // the right side is searched again
    }
  }
  return {fragments.begin(), fragments.end()};
}

struct Random {
  uint32_t state;
  uint32_t Below(uint32_t bound) {
    state = state * 1664525u + 1013904223u;
    return static_cast<uint32_t>((static_cast<uint64_t>(state >> 4) * bound) >> 28);
  }
  std::string Text(uint32_t longest, std::string_view alphabet) {
    std::string text;
    for (uint32_t i = 1 + Below(longest); i > 0; --i) {
      text.push_back(alphabet[Below(static_cast<uint32_t>(alphabet.size()))]);
    }
    return text;
  }
};

TEST(SpecialTokens, EqualsTheNaivePartition) {
  Random random{7};
  size_t token_count = 0;
  for (int round = 0; round < 300; ++round) {
    TestPieces pieces;
    std::vector<std::string> seen;
    for (uint32_t i = 1 + random.Below(12); i > 0; --i) {
      const std::string token = random.Text(5, "ab \n<");
      if (std::find(seen.begin(), seen.end(), token) != seen.end()) continue;
      seen.push_back(token);
      pieces.AddToken(token, 0, random.Below(2) ? TokenType::kControl : TokenType::kUserDefined);
    }
    const Vocabulary vocabulary = MakeVocabulary(pieces, round % 2 ? "Tiny Phi-3" : "");
    const SpecialTokens special_tokens(vocabulary);
    for (int i = 0; i < 30; ++i) {
      const std::string text = random.Text(40, "ab \n<");
      for (const bool parse_special : {false, true}) {
        const auto fragments = special_tokens.Partition(vocabulary, text, parse_special);
        token_count += fragments.size();
        ASSERT_TRUE(fragments == NaivePartition(vocabulary, text, parse_special)) << text;
      }
    }
  }
  EXPECT_GT(token_count, 50'000u);
}

TEST(SpecialTokens, LongestWinsOverLeftmost) {
  TestPieces pieces;
  pieces.AddToken("ab", 0, TokenType::kUserDefined);   // 259
  pieces.AddToken("bcd", 0, TokenType::kUserDefined);  // 260
  const Vocabulary vocabulary = MakeVocabulary(pieces);
  const auto fragments = SpecialTokens(vocabulary).Partition(vocabulary, "abcd", false);
  const std::vector<TextFragment> expected = {{kNoToken, 0, 1}, {260, 1, 4}};
  EXPECT_TRUE(fragments == expected);
}

TEST(SpecialTokens, ControlTokensNeedParsing) {
  TestPieces pieces;
  pieces.AddToken("<|x|>", 0, TokenType::kControl);  // 259
  const Vocabulary vocabulary = MakeVocabulary(pieces);
  const SpecialTokens special_tokens(vocabulary);
  EXPECT_EQ(special_tokens.Partition(vocabulary, "<|x|>", false).size(), 1u);
  EXPECT_EQ(special_tokens.Partition(vocabulary, "<|x|>", false)[0].id, kNoToken);
  EXPECT_EQ(special_tokens.Partition(vocabulary, "<|x|>", true)[0].id, 259);
  EXPECT_TRUE(special_tokens.Partition(vocabulary, "", true).empty());
}

// Thousands of tokens and a text full of near misses: steps stay proportional to the text.
TEST(SpecialTokens, CostDoesNotGrowWithTheNumberOfTokens) {
  TestPieces pieces;
  for (int i = 0; i < 6400; ++i) {
    pieces.AddToken(Format("<unused%d>", i), 0, TokenType::kUserDefined);
  }
  std::string newlines;
  for (int i = 0; i < 31; ++i) {
    newlines.push_back('\n');
    pieces.AddToken(newlines, 0, TokenType::kUserDefined);
  }
  const Vocabulary vocabulary = MakeVocabulary(pieces);
  const SpecialTokens special_tokens(vocabulary);
  std::string text;
  while (text.size() < 200'000) text += "<unused12 <unused6399> plain text\n\n\n";
  text.append(200'000, '\n');
  uint64_t step_count = 0;
  const auto fragments = special_tokens.Partition(vocabulary, text, true, &step_count);
  EXPECT_GT(fragments.size(), 200'000u / 31);
  EXPECT_LT(step_count, 70 * text.size());  // 31 nested tokens, walked at most twice
}

}  // namespace
}  // namespace nonstop
