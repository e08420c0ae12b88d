// What a file may not say, and the end-of-generation rules of llama.cpp (llama-vocab.cpp).
#include "text/vocabulary.h"

#include <gtest/gtest.h>

#include "text/tokenizer_for_test.h"

namespace nonstop {
namespace {

void ExpectError(const TokenizerSpec& spec, ErrorCode code, std::string_view part,
                 const VocabularyDefaults& defaults = {}) {
  const auto vocabulary = Vocabulary::Create(spec, defaults);
  ASSERT_FALSE(vocabulary.ok());
  EXPECT_EQ(vocabulary.error().code, code);
  EXPECT_NE(vocabulary.error().message.find(part), std::string::npos) << vocabulary.error().message;
}

TEST(Vocabulary, RefusesWhatCannotBe) {
  TestPieces pieces;
  pieces.AddToken("x", 0);
  TokenizerSpec spec = pieces.Spec();
  spec.scores->pop_back();
  ExpectError(spec, ErrorCode::kMalformed, "\"tokenizer.ggml.scores\" has another length (259)");

  spec = pieces.Spec();
  spec.types->push_back(1);
  ExpectError(spec, ErrorCode::kMalformed, "\"tokenizer.ggml.token_type\"");

  spec = pieces.Spec();
  spec.special_id(SpecialRole::kEndOfTurn) = 260;
  ExpectError(spec, ErrorCode::kMalformed,
              "\"tokenizer.ggml.eot_token_id\" names a token (260) outside the vocabulary");

  spec = pieces.Spec();
  spec.special_id(SpecialRole::kBos) = uint64_t{1} << 40;
  ExpectError(spec, ErrorCode::kMalformed, "1099511627776");

  spec = pieces.Spec();
  spec.add_bos = true;
  ExpectError(spec, ErrorCode::kMissingMetadata, "begin or end token");

  spec = pieces.Spec();
  spec.tokens = GgufStringArray();
  ExpectError(spec, ErrorCode::kMalformed, "tokens (0)");

  TestPieces twice;
  twice.AddToken("same", 0);
  twice.AddToken("same", 0);
  ExpectError(twice.Spec(), ErrorCode::kMalformed, "\"same\" twice (the second is token (260))");

  TestPieces long_token;
  long_token.AddToken(std::string(20'000, 'x'), 0);
  ExpectError(long_token.Spec(), ErrorCode::kMalformed, "(20000) over the limit");
}

TEST(Vocabulary, EmptyTextsGetANameAsInLlamaCpp) {
  TestPieces pieces;
  pieces.AddToken("", 0);
  const auto vocabulary = Vocabulary::Create(pieces.Spec(), {});
  ASSERT_TRUE(vocabulary.ok());
  EXPECT_EQ(vocabulary->text(259), "[EMPTY_259]");
}

TEST(Vocabulary, DefaultsOutsideTheVocabularyAreNone) {
  const TestStrings tokens = {"a", "b"};
  TokenizerSpec spec;
  spec.tokens = tokens.array();
  VocabularyDefaults defaults;
  defaults.bos = 1;
  defaults.eos = 11;
  const auto vocabulary = Vocabulary::Create(spec, defaults);
  ASSERT_TRUE(vocabulary.ok());
  EXPECT_EQ(vocabulary->special(SpecialRole::kBos), 1);
  EXPECT_EQ(vocabulary->special(SpecialRole::kEos), kNoToken);
  EXPECT_TRUE(vocabulary->end_tokens().empty());
}

TEST(Vocabulary, TypesOutOfRangeAreUndefined) {
  TestPieces pieces;
  pieces.AddToken("x", 0);
  TokenizerSpec spec = pieces.Spec();
  for (const int32_t type : {0, 7, -1, 257, INT32_MAX, INT32_MIN}) {
    spec.types->back() = type;
    const auto vocabulary = Vocabulary::Create(spec, {});
    ASSERT_TRUE(vocabulary.ok());
    EXPECT_EQ(vocabulary->type(259), TokenType::kUndefined) << type;
  }
}

// Adds the texts as normal tokens from 259 on; returns the offsets of those that end generation.
std::vector<TokenId> Ends(std::initializer_list<std::string_view> texts,
                          std::optional<uint64_t> eos = {}) {
  TestPieces pieces;
  for (const std::string_view text : texts) pieces.AddToken(text, 0);
  TokenizerSpec spec = pieces.Spec();
  spec.special_id(SpecialRole::kEos) = eos;
  const auto vocabulary = Vocabulary::Create(spec, {});
  CHECK(vocabulary.ok());
  std::vector<TokenId> ends;
  for (const TokenId id : vocabulary->end_tokens()) {
    EXPECT_TRUE(vocabulary->IsEnd(id));
    if (id >= 259) ends.push_back(id - 259);
  }
  return ends;
}

TEST(Vocabulary, EndTokens) {
  using V = std::vector<TokenId>;
  EXPECT_EQ(Ends({"x", "<|im_end|>", "<|endoftext|>", "<|im_start|>"}), (V{1, 2}));
  EXPECT_EQ(Ends({"<end_of_turn>", "<start_of_turn>", "<eos>"}), (V{0, 2}));
  EXPECT_EQ(Ends({"<|eot_id|>", "<|eom_id|>", "<|end_of_text|>"}), (V{0, 1, 2}));
  EXPECT_EQ(Ends({"stop"}, 259), (V{0}));
  EXPECT_EQ(Ends({"<|fim_pad|>", "<|fim_prefix|>", "<|repo_name|>", "<|file_sep|>"}), (V{0, 2, 3}));
  // Only the first repository marker of the list plays that part.
  EXPECT_EQ(Ends({"<reponame>", "<|repo_name|>"}), (V{1}));
  // Harmony: <|end|> ends a message, not the reply.
  EXPECT_EQ(Ends({"<|end|>", "<|return|>", "<|call|>"}), (V{1, 2}));
  EXPECT_EQ(Ends({"<|end|>", "<|return|>"}), (V{0, 1}));
}

TEST(Vocabulary, EndTokensBecomeControlTokens) {
  TestPieces pieces;
  pieces.AddToken("<|im_end|>", 0);                        // 259
  pieces.AddToken("<|fim_suffix|>", 0);                    // 260: a part to play, but no end
  pieces.AddToken("<|message|>", 0, TokenType::kControl);  // 261: always rendered
  const auto vocabulary = Vocabulary::Create(pieces.Spec(), {});
  ASSERT_TRUE(vocabulary.ok());
  EXPECT_EQ(vocabulary->type(259), TokenType::kControl);
  EXPECT_EQ(vocabulary->type(260), TokenType::kControl);
  EXPECT_FALSE(vocabulary->IsEnd(260));
  EXPECT_EQ(vocabulary->type(261), TokenType::kUserDefined);
}

// "</s>" ends a reply, but is plain text where Gemma 4's or PLaMo's own end token is there.
TEST(Vocabulary, SlashSIsNotAlwaysAnEnd) {
  TestPieces pieces;
  const auto plain = Vocabulary::Create(pieces.Spec(), {});
  ASSERT_TRUE(plain.ok());
  EXPECT_TRUE(plain->IsEnd(2));
  pieces.AddToken("<|tool_response>", 0);
  const auto gemma4 = Vocabulary::Create(pieces.Spec(), {});
  ASSERT_TRUE(gemma4.ok());
  EXPECT_FALSE(gemma4->IsEnd(2));
  EXPECT_EQ(gemma4->type(2), TokenType::kNormal);
}

// A million tokens cost a few flat arrays.
TEST(Vocabulary, MemoryIsProportional) {
  TestStrings tokens;
  size_t size_bytes = 0;
  constexpr int kCount = 200'000;
  for (int i = 0; i < kCount; ++i) {
    const std::string text = Format("token%d", i);
    tokens.Add(text);
    size_bytes += text.size() + 8;  // as in the file
  }
  TokenizerSpec spec;
  spec.tokens = tokens.array();
  const auto vocabulary = Vocabulary::Create(spec, {});
  ASSERT_TRUE(vocabulary.ok());
  EXPECT_EQ(vocabulary->Find("token123456"), 123'456);
  EXPECT_EQ(vocabulary->Find("token200000"), kNoToken);
  EXPECT_LT(vocabulary->memory_size_bytes(), 3 * size_bytes);
}

}  // namespace
}  // namespace nonstop
