// Byte pairs against a naive merge loop over texts, and GPT-2's byte alphabet.
#include "text/byte_pair.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "text/tokenizer_for_test.h"

namespace nonstop {
namespace {

// openai/gpt-2, encoder.py, bytes_to_unicode().
TEST(BytePair, ByteAlphabet) {
  EXPECT_EQ(CodePointOfByte('!'), 0x21u);
  EXPECT_EQ(CodePointOfByte('~'), 0x7eu);
  EXPECT_EQ(CodePointOfByte(0x00), 0x100u);
  EXPECT_EQ(CodePointOfByte('\n'), 0x10au);  // Ċ
  EXPECT_EQ(CodePointOfByte(' '), 0x120u);   // Ġ
  EXPECT_EQ(CodePointOfByte(0x7f), 0x121u);
  EXPECT_EQ(CodePointOfByte(0xa0), 0x142u);
  EXPECT_EQ(CodePointOfByte(0xad), 0x143u);
  EXPECT_EQ(CodePointOfByte(0xa1), 0xa1u);
  EXPECT_EQ(CodePointOfByte(0xff), 0xffu);
  int count = 0;
  for (uint32_t c = 0; c < 0x400; ++c) {
    const int byte = ByteOfCodePoint(c);
    if (byte < 0) continue;
    ++count;
    EXPECT_EQ(CodePointOfByte(static_cast<uint8_t>(byte)), c);
  }
  EXPECT_EQ(count, 256);
}

struct Encoder {
  Vocabulary vocabulary;
  BytePairEncoder byte_pair;

  static Encoder Make(const TokenizerSpec& spec, bool ignores_merges = false) {
    auto vocabulary = Vocabulary::Create(spec, {});
    CHECK(vocabulary.ok());
    auto byte_pair = BytePairEncoder::Create(spec, *vocabulary, ignores_merges);
    CHECK(byte_pair.ok());
    return {std::move(vocabulary).value(), std::move(byte_pair).value()};
  }
  std::vector<TokenId> Encode(std::string_view word) const {
    BytePairEncoder::Workspace workspace;
    std::vector<TokenId> ids;
    byte_pair.Encode(vocabulary, word, &workspace, &ids);
    return ids;
  }
};

using Pair = std::pair<std::string, std::string>;

// The textbook: merge the leftmost pair of the lowest rank, until there is none.
std::vector<std::string> NaiveMerge(const std::map<Pair, int>& ranks, std::string_view word) {
  std::vector<std::string> parts;
  for (const char c : word) parts.emplace_back(1, c);
  for (;;) {
    int best_rank = -1;
    size_t best = 0;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto rank = ranks.find({parts[i], parts[i + 1]});
      if (rank != ranks.end() && (best_rank < 0 || rank->second < best_rank)) {
        best_rank = rank->second;
        best = i;
      }
    }
    if (best_rank < 0) return parts;
    parts[best] += parts[best + 1];
    parts.erase(parts.begin() + static_cast<ptrdiff_t>(best) + 1);
  }
}

TEST(BytePair, EqualsTheNaiveMergeLoop) {
  uint32_t state = 3;
  const auto below = [&](uint32_t bound) {
    state = state * 1664525u + 1013904223u;
    return (state >> 10) % bound;
  };
  for (int round = 0; round < 100; ++round) {
    TestBytePairs pairs;
    std::map<Pair, int> ranks;
    std::vector<std::string> texts = {"a", "b", "c"};
    for (int rank = 0; rank < 40; ++rank) {
      const std::string left = texts[below(static_cast<uint32_t>(texts.size()))];
      const std::string right = texts[below(static_cast<uint32_t>(texts.size()))];
      pairs.merges.Add(left + " " + right);
      ranks.emplace(Pair{left, right}, rank);  // of two equal merges the first counts
      if (std::find(texts.begin(), texts.end(), left + right) == texts.end()) {
        texts.push_back(left + right);
        pairs.AddToken(left + right);
      }
    }
    const TokenizerSpec spec = pairs.Spec("gpt-2");
    const Encoder encoder = Encoder::Make(spec);
    for (int i = 0; i < 30; ++i) {
      std::string word;
      for (uint32_t length = below(60); length > 0; --length) word.push_back("abc"[below(3)]);
      std::vector<TokenId> expected;
      for (const std::string& part : NaiveMerge(ranks, word)) {
        expected.push_back(encoder.vocabulary.Find(part));
      }
      ASSERT_EQ(encoder.Encode(word), expected) << word;
    }
  }
}

// A merge whose text is no token comes apart into its written bytes (llama.cpp's fallback).
TEST(BytePair, MergedTextWithoutToken) {
  TestBytePairs pairs;
  pairs.merges.Add("a b");
  pairs.merges.Add("ab c");
  pairs.AddToken("abc");  // 256
  const TokenizerSpec spec = pairs.Spec("gpt-2");
  const Encoder encoder = Encoder::Make(spec);
  EXPECT_EQ(encoder.Encode("abc"), (std::vector<TokenId>{256}));
  EXPECT_EQ(encoder.Encode("abb"), (std::vector<TokenId>{'a', 'b', 'b'}));
}

TEST(BytePair, MalformedMergesKeepTheirRank) {
  TestBytePairs pairs;
  for (const char* line : {"", " ", "ab", "a ", "  b", "b c", "a b"}) pairs.merges.Add(line);
  pairs.AddToken("bc");  // 256
  pairs.AddToken("ab");  // 257
  const TokenizerSpec spec = pairs.Spec("gpt-2");
  EXPECT_EQ(Encoder::Make(spec).Encode("abc"), (std::vector<TokenId>{'a', 256}));
}

TEST(BytePair, WholeWordsWhereMergesAreIgnored) {
  TestBytePairs pairs;
  pairs.AddMerge("a", "b");     // 256
  pairs.AddToken("\u0120abc");  // 257: no merge leads here
  const TokenizerSpec spec = pairs.Spec("llama-bpe");
  EXPECT_EQ(Encoder::Make(spec, true).Encode(" abc"), (std::vector<TokenId>{257}));
  EXPECT_EQ(Encoder::Make(spec, false).Encode(" abc"), (std::vector<TokenId>{32, 256, 'c'}));
}

TEST(BytePair, NoMergesAtAllIsAnError) {
  TestBytePairs pairs;
  TokenizerSpec spec = pairs.Spec("gpt-2");
  const auto vocabulary = Vocabulary::Create(spec, {});
  ASSERT_TRUE(vocabulary.ok());
  spec.merges.reset();
  const auto encoder = BytePairEncoder::Create(spec, *vocabulary, false);
  ASSERT_FALSE(encoder.ok());
  EXPECT_EQ(encoder.error().code, ErrorCode::kMissingMetadata);
}

// One word of 1 MB: each merge looks up two pairs, and a text of n bytes has fewer than n merges.
TEST(BytePair, LongWordIsNotQuadratic) {
  TestBytePairs pairs;
  std::string half = "a";
  for (int i = 0; i < 8; ++i) {
    pairs.AddMerge(half, half);
    half += half;
  }
  const TokenizerSpec spec = pairs.Spec("gpt-2");
  const Encoder encoder = Encoder::Make(spec);
  const std::string word(1u << 20, 'a');
  BytePairEncoder::Workspace workspace;
  std::vector<TokenId> ids;
  encoder.byte_pair.Encode(encoder.vocabulary, word, &workspace, &ids);
  EXPECT_EQ(ids, std::vector<TokenId>(word.size() / 256, 263));
  EXPECT_LT(workspace.lookup_count, 3 * word.size());
}

}  // namespace
}  // namespace nonstop
