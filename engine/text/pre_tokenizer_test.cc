// Words against Python's `regex` module running the published expressions (for "tekken":
// llama.cpp's form of it). DeepSeek's and the default's order of stages is judged by llama.cpp on
// whole vocabularies in tokenizer_reference_test.cc.
#include "text/pre_tokenizer.h"

#include <gtest/gtest.h>

#include <string>

namespace nonstop {
namespace {

using Words = std::vector<std::string>;

Words Split(std::string_view name, std::string_view text) {
  const PreTokenizer* pre_tokenizer = FindPreTokenizer(name);
  if (!pre_tokenizer) return {"no such pre-tokenizer"};
  const auto code_points = Classify(text);
  Words words;
  uint32_t begin = 0;
  for (const uint32_t end : SplitWords(*pre_tokenizer, code_points)) {
    std::string word;
    for (; begin < end; ++begin) AppendUtf8(code_points[begin].value(), &word);
    words.push_back(word);
  }
  return words;
}

struct Case {
  const char* name;
  const char* text;
  Words words;
};

TEST(PreTokenizer, SplitsAsTheExpressionsDo) {
  const Case cases[] = {
      {"gpt-2",
       "I'm YOU'RE we'll  3 x",
       {"I", "'m", " YOU", "'", "RE", " we", "'ll", " ", " 3", " x"}},
      {"gpt-2", "a  b\n\n c \t\n", {"a", " ", " b", "\n\n", " c", " \t\n"}},
      {"gpt-2", "12345 x2", {"12345", " x", "2"}},
      {"gpt-2", "(foo)bar/\r\n/baz", {"(", "foo", ")", "bar", "/", "\r", "\n", "/", "baz"}},
      {"gpt-2", "école ÉCOLE HTTPServer éABc", {"école", " ÉCOLE", " HTTPServer", " éABc"}},
      {"gpt-2",
       " \u00a0\u3000x 日本語、1２三",
       {" \u00a0", "\u3000", "x", " 日本語", "、", "1２", "三"}},
      {"smollm",
       "I'm YOU'RE we'll  3 x",
       {"I", "'m", " YOU", "'", "RE", " we", "'ll", "  ", "3", " x"}},
      {"smollm", "a  b\n\n c \t\n", {"a", " ", " b", "\n\n", " c", " \t\n"}},
      {"smollm", "12345 x2", {"1", "2", "3", "4", "5", " x", "2"}},
      {"smollm", "(foo)bar/\r\n/baz", {"(", "foo", ")", "bar", "/", "\r", "\n", "/", "baz"}},
      {"smollm", "école ÉCOLE HTTPServer éABc", {"école", " ÉCOLE", " HTTPServer", " éABc"}},
      {"smollm",
       " \u00a0\u3000x 日本語、1２三",
       {" \u00a0", "\u3000", "x", " 日本語", "、", "1", "２", "三"}},
      {"llama-bpe",
       "I'm YOU'RE we'll  3 x",
       {"I", "'m", " YOU", "'RE", " we", "'ll", " ", " ", "3", " x"}},
      {"llama-bpe", "a  b\n\n c \t\n", {"a", " ", " b", "\n\n", " c", " \t\n"}},
      {"llama-bpe", "12345 x2", {"123", "45", " x", "2"}},
      {"llama-bpe", "(foo)bar/\r\n/baz", {"(foo", ")bar", "/\r\n", "/baz"}},
      {"llama-bpe", "école ÉCOLE HTTPServer éABc", {"école", " ÉCOLE", " HTTPServer", " éABc"}},
      {"llama-bpe",
       " \u00a0\u3000x 日本語、1２三",
       {" \u00a0", "\u3000x", " 日本語", "、", "1２", "三"}},
      {"qwen2",
       "I'm YOU'RE we'll  3 x",
       {"I", "'m", " YOU", "'RE", " we", "'ll", " ", " ", "3", " x"}},
      {"qwen2", "a  b\n\n c \t\n", {"a", " ", " b", "\n\n", " c", " \t\n"}},
      {"qwen2", "12345 x2", {"1", "2", "3", "4", "5", " x", "2"}},
      {"qwen2", "(foo)bar/\r\n/baz", {"(foo", ")bar", "/\r\n", "/baz"}},
      {"qwen2", "école ÉCOLE HTTPServer éABc", {"école", " ÉCOLE", " HTTPServer", " éABc"}},
      {"qwen2",
       " \u00a0\u3000x 日本語、1２三",
       {" \u00a0", "\u3000x", " 日本語", "、", "1", "２", "三"}},
      {"tekken",
       "I'm YOU'RE we'll  3 x",
       {"I", "'m", " YOU", "'RE", " we", "'ll", " ", " ", "3", " x"}},
      {"tekken", "a  b\n\n c \t\n", {"a", " ", " b", "\n\n", " c", " \t\n"}},
      {"tekken", "12345 x2", {"1", "2", "3", "4", "5", " x", "2"}},
      {"tekken", "(foo)bar/\r\n/baz", {"(foo", ")bar", "/\r\n/", "baz"}},
      {"tekken", "école ÉCOLE HTTPServer éABc", {"école", " É", "COLE", " HTTPServer", " éABc"}},
      {"tekken",
       " \u00a0\u3000x 日本語、1２三",
       {" \u00a0", "\u3000x", " 日本語", "、", "1", "２", "三"}},
  };
  for (const Case& c : cases) EXPECT_EQ(Split(c.name, c.text), c.words) << c.name << ": " << c.text;
}

// Upper case runs back off to the last letter beyond ASCII, which counts as both cases.
TEST(PreTokenizer, TekkenBacktracks) {
  EXPECT_EQ(Split("tekken", "ABC"), (Words{"ABC"}));
  EXPECT_EQ(Split("tekken", "ABéCD"), (Words{"ABé", "CD"}));
  EXPECT_EQ(Split("tekken", "\u4e2dAB"), (Words{"\u4e2d", "AB"}));
  EXPECT_EQ(Split("tekken", "aBc"), (Words{"a", "Bc"}));
}

// By hand from llama.cpp's six expressions: Latin letters count as marks in the third.
TEST(PreTokenizer, DeepSeekStages) {
  EXPECT_EQ(Split("deepseek-llm", "ab 12\n\nc  "), (Words{"ab", " ", "12", "\n", "\n", "c", "  "}));
  EXPECT_EQ(Split("deepseek-llm", "\u4e00\u4e01x"), (Words{"\u4e00\u4e01", "x"}));
  EXPECT_EQ(Split("deepseek-llm", "h\u00e9llo"), (Words{"h", "\u00e9", "llo"}));
}

TEST(PreTokenizer, DefaultStages) {
  EXPECT_EQ(Split("default", "a, 1234567"), (Words{"a", ",", " ", "123", "456", "7"}));
  EXPECT_EQ(Split("", "a=b"), (Words{"a", "=", "b"}));
}

TEST(PreTokenizer, UnknownNamesAreNotGuessed) {
  EXPECT_EQ(FindPreTokenizer("gpt-3"), nullptr);
  EXPECT_EQ(FindPreTokenizer("qwen2 "), nullptr);
  EXPECT_EQ(FindPreTokenizer("gpt-4o"), nullptr);
}

TEST(PreTokenizer, FlagsFollowLlamaCpp) {
  EXPECT_TRUE(FindPreTokenizer("llama-bpe")->ignores_merges);
  EXPECT_TRUE(FindPreTokenizer("llama-bpe")->adds_bos);
  EXPECT_TRUE(FindPreTokenizer("tekken")->ignores_merges);
  EXPECT_FALSE(FindPreTokenizer("dbrx")->ignores_merges);
  EXPECT_FALSE(FindPreTokenizer("qwen2")->ignores_merges);
  EXPECT_FALSE(FindPreTokenizer("smollm")->adds_bos);
}

// Every text is covered, by every pre-tokenizer, whatever its code points.
TEST(PreTokenizer, WordsCoverTheText) {
  const char* names[] = {"", "gpt-2", "smollm", "llama-bpe", "qwen2", "deepseek-llm", "tekken"};
  uint32_t state = 1;
  for (int round = 0; round < 200; ++round) {
    std::vector<ClassifiedCodePoint> text;
    for (int i = 0; i < 40; ++i) {
      state = state * 1664525u + 1013904223u;
      const uint32_t span = (state >> 8) % 3 == 0 ? 0x30000 : (state >> 8) % 3 == 1 ? 0x80 : 0x3100;
      text.emplace_back((state >> 10) % span);
    }
    for (const char* name : names) {
      const auto ends = SplitWords(*FindPreTokenizer(name), text);
      uint32_t last = 0;
      for (const uint32_t end : ends) {
        ASSERT_GT(end, last);
        last = end;
      }
      ASSERT_EQ(last, text.size());
    }
  }
  EXPECT_TRUE(SplitWords(*FindPreTokenizer("gpt-2"), {}).empty());
}

}  // namespace
}  // namespace nonstop
