// SentencePiece merges against a naive loop, and the byte fallback.
#include "text/sentence_piece.h"

#include <gtest/gtest.h>

#include <limits>

#include "text/tokenizer_for_test.h"

namespace nonstop {
namespace {

Vocabulary MakeVocabulary(const TestPieces& pieces) {
  VocabularyDefaults defaults;
  defaults.unknown = 0;
  auto vocabulary = Vocabulary::Create(pieces.Spec(), defaults);
  CHECK(vocabulary.ok());
  return std::move(vocabulary).value();
}

std::vector<TokenId> Encode(const Vocabulary& vocabulary, std::string_view text,
                            uint64_t* lookup_count = nullptr) {
  SentencePieceEncoder::Workspace workspace;
  std::vector<TokenId> ids;
  SentencePieceEncoder(vocabulary).Encode(vocabulary, text, &workspace, &ids);
  if (lookup_count) *lookup_count = workspace.lookup_count;
  return ids;
}

// Merge the leftmost neighbours that form the token of the highest score.
std::vector<std::string> NaiveMerge(const Vocabulary& vocabulary, std::string_view text) {
  std::vector<std::string> parts;
  for (const char c : text) parts.emplace_back(1, c);
  for (;;) {
    TokenId best_token = kNoToken;
    size_t best = 0;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      const TokenId token = vocabulary.Find(parts[i] + parts[i + 1]);
      if (token == kNoToken) continue;
      if (best_token == kNoToken || vocabulary.score(token) > vocabulary.score(best_token)) {
        best_token = token;
        best = i;
      }
    }
    if (best_token == kNoToken) return parts;
    parts[best] += parts[best + 1];
    parts.erase(parts.begin() + static_cast<ptrdiff_t>(best) + 1);
  }
}

TEST(SentencePiece, EqualsTheNaiveMergeLoop) {
  uint32_t state = 11;
  const auto below = [&](uint32_t bound) {
    state = state * 1664525u + 1013904223u;
    return (state >> 10) % bound;
  };
  const float scores[] = {-1, -2, -2.5f, 0, -0.0f, 3, -1e9f, 1e-9f};
  for (int round = 0; round < 100; ++round) {
    TestPieces pieces;
    std::vector<std::string> texts = {"a", "b", "c"};
    for (const std::string& text : texts) pieces.AddToken(text, -100);
    for (int i = 0; i < 40; ++i) {
      std::string text;
      for (uint32_t length = 2 + below(4); length > 0; --length) text.push_back("abc"[below(3)]);
      if (std::find(texts.begin(), texts.end(), text) != texts.end()) continue;
      texts.push_back(text);
      pieces.AddToken(text, scores[below(8)]);
    }
    const Vocabulary vocabulary = MakeVocabulary(pieces);
    for (int i = 0; i < 30; ++i) {
      std::string text;
      for (uint32_t length = below(60); length > 0; --length) text.push_back("abc"[below(3)]);
      std::vector<TokenId> expected;
      for (const std::string& part : NaiveMerge(vocabulary, text)) {
        expected.push_back(vocabulary.Find(part));
      }
      ASSERT_EQ(Encode(vocabulary, text), expected) << text;
    }
  }
}

TEST(SentencePiece, UnknownCharactersFallBackToBytes) {
  TestPieces pieces;
  pieces.AddToken("a", 0);  // 259; <0x00> is 3
  const Vocabulary vocabulary = MakeVocabulary(pieces);
  EXPECT_EQ(Encode(vocabulary, "a\xe2\x82\xac"),
            (std::vector<TokenId>{259, 3 + 0xe2, 3 + 0x82, 3 + 0xac}));
  EXPECT_EQ(Encode(vocabulary, "\xff\xe2"), (std::vector<TokenId>{3 + 0xff, 3 + 0xe2}));
  EXPECT_TRUE(Encode(vocabulary, "").empty());
}

TEST(SentencePiece, WithoutByteTokensTheUnknownTokenStands) {
  TestPieces full;
  TokenizerSpec spec = full.Spec();
  const TestStrings tokens = {"<unk>", "a", "\n"};
  spec.tokens = tokens.array();
  spec.scores.reset();
  spec.types.reset();
  VocabularyDefaults defaults;
  defaults.unknown = 0;
  const auto vocabulary = Vocabulary::Create(spec, defaults);
  ASSERT_TRUE(vocabulary.ok()) << vocabulary.error().message;
  EXPECT_EQ(Encode(*vocabulary, "a\nz"), (std::vector<TokenId>{1, 2, 0}));
}

TEST(SentencePiece, NanScoresComeLast) {
  TestPieces pieces;
  for (const char* text : {"a", "b", "c"}) pieces.AddToken(text, 0);  // 259, 260, 261
  pieces.AddToken("ab", std::numeric_limits<float>::quiet_NaN());     // 262
  pieces.AddToken("bc", -std::numeric_limits<float>::infinity());     // 263
  EXPECT_EQ(Encode(MakeVocabulary(pieces), "abc"), (std::vector<TokenId>{259, 263}));
}

TEST(SentencePiece, LongTextIsNotQuadratic) {
  TestPieces pieces;
  std::string text = "a";
  for (int i = 0; i <= 8; ++i) {
    pieces.AddToken(text, static_cast<float>(i));
    text += text;
  }
  const Vocabulary vocabulary = MakeVocabulary(pieces);
  const std::string long_text(1u << 18, 'a');
  uint64_t lookup_count = 0;
  const auto ids = Encode(vocabulary, long_text, &lookup_count);
  // The longest token is found first wherever it can be; no more than 3 look-ups a character.
  EXPECT_GE(ids.size(), long_text.size() / 256);
  EXPECT_LT(lookup_count, 3 * long_text.size());
}

}  // namespace
}  // namespace nonstop
