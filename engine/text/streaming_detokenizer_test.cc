// The stream of text against the whole text, cut at every place.
#include <gtest/gtest.h>

#include <algorithm>

#include "text/tokenizer_for_test.h"

namespace nonstop {
namespace {

class StreamingDetokenizerTest : public testing::Test {
 protected:
  // Bytes are tokens 3 to 258 of the SentencePiece vocabulary, without a space prefix here.
  StreamingDetokenizerTest() {
    TokenizerSpec spec = pieces_.Spec();
    spec.add_space_prefix = false;
    auto tokenizer = Tokenizer::Create(spec);
    CHECK(tokenizer.ok());
    tokenizer_ = std::move(tokenizer).value();
  }

  std::string Stream(std::string_view bytes, std::vector<std::string>* steps = nullptr) const {
    StreamingDetokenizer detokenizer(*tokenizer_, false);
    std::string text;
    for (const char byte : bytes) {
      const size_t before = text.size();
      detokenizer.Push(3 + static_cast<uint8_t>(byte), &text);
      if (steps) steps->push_back(text.substr(before));
    }
    detokenizer.Finish(&text);
    return text;
  }

  TestPieces pieces_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_F(StreamingDetokenizerTest, HoldsBackHalfSequences) {
  std::vector<std::string> steps;
  EXPECT_EQ(Stream("a\u20ac\U0001F600z", &steps), "a\u20ac\U0001F600z");
  const std::vector<std::string> expected = {"a", "", "", "\u20ac", "", "", "", "\U0001F600", "z"};
  EXPECT_EQ(steps, expected);
}

// Unicode 15, section 3.9: one U+FFFD for each maximal subpart.
TEST_F(StreamingDetokenizerTest, InvalidBytesAreReplaced) {
  EXPECT_EQ(Stream("a\xf1\x80\x80\xe1\x80\xc2"
                   "b\x80"
                   "c\x80\xbf"
                   "d"),
            "a\ufffd\ufffd\ufffdb\ufffdc\ufffd\ufffdd");
  EXPECT_EQ(Stream("\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41"),
            "\ufffd\ufffd\ufffd\ufffdA");  // table 3-11
  EXPECT_EQ(Stream("\xc0\xaf\xe0\x80\xbf\xf0\x81\x82\x41"),
            "\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffdA");  // table 3-8
  EXPECT_EQ(Stream("\xed\xa0\x80\xed\xbf\xbf\xed\xaf\x41"),
            "\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffdA");  // table 3-9
  EXPECT_EQ(Stream("\xf4\x91\x92\x93\xff\x41\x80\xbf\x42"),
            "\ufffd\ufffd\ufffd\ufffd\ufffdA\ufffd\ufffdB");  // table 3-10
  EXPECT_EQ(Stream("\xe2\x82"), "\ufffd");                    // left at the end
  EXPECT_EQ(Stream("\xf0\x9f\x98"), "\ufffd");
}

TEST_F(StreamingDetokenizerTest, FinishTwiceAddsNothing) {
  StreamingDetokenizer detokenizer(*tokenizer_, false);
  std::string text;
  detokenizer.Push(3 + 0xe2, &text);
  detokenizer.Finish(&text);
  detokenizer.Finish(&text);
  EXPECT_EQ(text, "\ufffd");
}

// Three tokens that cut a text anywhere: each step ends at a whole sequence, the sum is the text.
TEST(StreamingDetokenizer, EverySplitGivesTheSameText) {
  const std::string text = "na\u00efve \u65e5\u672c\U0001F9D1\u200d\U0001F680 e\u0301!";
  for (size_t first = 1; first < text.size(); ++first) {
    for (size_t second = first + 1; second < text.size(); ++second) {
      const size_t cuts[] = {0, first, second, text.size()};
      TestStrings tokens;
      std::vector<std::string> written(3);
      for (size_t i = 0; i < 3; ++i) {
        for (size_t at = cuts[i]; at < cuts[i + 1]; ++at) {
          AppendUtf8(CodePointOfByte(static_cast<uint8_t>(text[at])), &written[i]);
        }
        if (std::find(written.begin(), written.begin() + static_cast<ptrdiff_t>(i), written[i]) ==
            written.begin() + static_cast<ptrdiff_t>(i)) {
          tokens.Add(written[i]);
        }
      }
      TokenizerSpec spec;
      spec.model = "gpt2";
      spec.tokens = tokens.array();
      spec.merges = GgufStringArray();
      const auto tokenizer = Tokenizer::Create(spec);
      ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
      StreamingDetokenizer detokenizer(**tokenizer, false);
      std::string streamed;
      for (size_t i = 0; i < 3; ++i) {
        detokenizer.Push((*tokenizer)->Find(written[i]), &streamed);
        // What came out is the text up to the last sequence that is complete.
        size_t whole = cuts[i + 1];
        while (whole < text.size() && (static_cast<uint8_t>(text[whole]) & 0xc0) == 0x80) --whole;
        ASSERT_EQ(streamed, text.substr(0, whole)) << first << ", " << second;
      }
      detokenizer.Finish(&streamed);
      ASSERT_EQ(streamed, text);
    }
  }
}

TEST(StreamingDetokenizer, DropsTheSpaceOfThePrefixOnce) {
  TestPieces pieces;
  pieces.AddToken("\u2581a", 0);  // 259
  const auto tokenizer = Tokenizer::Create(pieces.Spec());
  ASSERT_TRUE(tokenizer.ok());
  const auto stream = [&](std::initializer_list<TokenId> ids) {
    StreamingDetokenizer detokenizer(**tokenizer, false);
    std::string text;
    for (const TokenId id : ids) detokenizer.Push(id, &text);
    detokenizer.Finish(&text);
    return text;
  };
  EXPECT_EQ(stream({259, 259}), "a a");
  EXPECT_EQ(stream({3 + ' ', 259}), " a");
  EXPECT_EQ(stream({1, 259}), " a");  // llama.cpp looks at the first token only
}

}  // namespace
}  // namespace nonstop
