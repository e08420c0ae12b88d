// Properties of the whole tokenizer: encode then decode is the identity, nothing crashes on any
// bytes, every split of a stream gives the same text, and unknown kinds are refused by name.
#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include "text/tokenizer_for_test.h"

namespace nonstop {
namespace {

std::unique_ptr<Tokenizer> Make(const TokenizerSpec& spec) {
  auto tokenizer = Tokenizer::Create(spec);
  EXPECT_TRUE(tokenizer.ok()) << (tokenizer.ok() ? "" : tokenizer.error().message);
  return tokenizer.ok() ? std::move(tokenizer).value() : nullptr;
}

std::string Decode(const Tokenizer& tokenizer, std::span<const TokenId> ids, bool with_special) {
  std::string text;
  for (const TokenId id : ids) tokenizer.AppendPiece(id, with_special, &text);
  return text;
}

std::string Unescape(std::string text) {
  for (size_t at = 0; (at = text.find("\u2581", at)) != std::string::npos;) {
    text.replace(at, 3, " ");
  }
  return text;
}

struct Random {
  uint32_t state;
  uint32_t Below(uint32_t bound) {
    state = state * 1664525u + 1013904223u;
    return static_cast<uint32_t>((static_cast<uint64_t>(state >> 4) * bound) >> 28);
  }
  std::string ValidText(uint32_t count) {
    std::string text;
    while (count-- > 0) {
      static constexpr uint32_t kSpans[] = {0x80, 0x80, 0x250, 0x3100, 0x20000, 0x110000};
      const uint32_t c = Below(kSpans[Below(6)]);
      AppendUtf8(c >= 0xd800 && c < 0xe000 ? ' ' : c, &text);
    }
    return text;
  }
  std::string Bytes(uint32_t count) {
    std::string text;
    while (count-- > 0) text.push_back(static_cast<char>(Below(256)));
    return text;
  }
};

const char* const kPreTokenizers[] = {"",      "gpt-2",        "smollm", "llama-bpe",
                                      "qwen2", "deepseek-llm", "tekken"};

TestBytePairs SomeBytePairs() {
  TestBytePairs pairs;
  pairs.AddMerge("t", "h");                             // 256
  pairs.AddMerge("th", "e");                            // 257
  pairs.AddMerge("\u0120", "the");                      // 258
  pairs.AddMerge("1", "2");                             // 259
  pairs.AddToken("<|im_start|>", TokenType::kControl);  // 260
  pairs.AddToken("<|im_end|>", TokenType::kControl);    // 261
  pairs.AddToken("<tool>", TokenType::kUserDefined);    // 262
  return pairs;
}

TEST(Tokenizer, EncodeThenDecodeIsTheIdentity) {
  const TestBytePairs pairs = SomeBytePairs();
  Random random{5};
  for (const char* pre : kPreTokenizers) {
    const auto tokenizer = Make(pairs.Spec(pre));
    for (int i = 0; i < 200; ++i) {
      std::string text = random.ValidText(random.Below(40));
      if (i % 4 == 0) text += "<|im_end|> the <tool> 1212";
      for (const bool parse_special : {false, true}) {
        const auto ids = tokenizer->Encode(text, {false, parse_special});
        ASSERT_EQ(Decode(*tokenizer, ids, true), text) << pre;
      }
    }
  }
}

TEST(Tokenizer, AnyBytesEncode) {
  const TestBytePairs pairs = SomeBytePairs();
  TestPieces pieces;
  pieces.AddToken("\u2581", -1);
  Random random{9};
  for (int i = 0; i < 300; ++i) {
    const std::string text = random.Bytes(random.Below(64));
    for (const char* pre : kPreTokenizers) {
      const auto tokenizer = Make(pairs.Spec(pre));
      // Only replaced bytes differ from the text.
      std::string expected;
      for (size_t offset = 0; offset < text.size();) {
        AppendUtf8(NextCodePoint(text, &offset), &expected);
      }
      ASSERT_EQ(Decode(*tokenizer, tokenizer->Encode(text, {false, false}), true), expected);
    }
    const auto tokenizer = Make(pieces.Spec());
    const auto ids = tokenizer->Encode(text, {true, true});
    // A broken sequence may swallow the first byte of an escaped space, which then stays escaped.
    const std::string decoded = Decode(*tokenizer, ids, false);
    if (!text.empty()) ASSERT_EQ(Unescape(decoded), Unescape(" " + text));
  }
}

TEST(Tokenizer, SpecialTokensAndOptions) {
  TestBytePairs pairs = SomeBytePairs();
  TokenizerSpec spec = pairs.Spec("gpt-2");
  spec.special_id(SpecialRole::kBos) = 260;
  spec.special_id(SpecialRole::kEos) = 261;
  spec.add_bos = true;
  spec.add_eos = true;
  const auto tokenizer = Make(spec);
  using V = std::vector<TokenId>;
  EXPECT_EQ(tokenizer->Encode("the<|im_end|>", {true, true}), (V{260, 257, 261, 261}));
  EXPECT_EQ(tokenizer->Encode("", {true, true}), (V{260, 261}));
  EXPECT_EQ(tokenizer->Encode("the the", {false, true}), (V{257, 258}));
  EXPECT_EQ(tokenizer->Encode("<tool>", {false, false}), (V{262}));
  EXPECT_EQ(tokenizer->Encode("<|im_end|>", {false, false}).size(), 10u);
  EXPECT_TRUE(tokenizer->IsEnd(261));
  EXPECT_FALSE(tokenizer->IsEnd(260));
  EXPECT_FALSE(tokenizer->IsEnd(kNoToken));
  EXPECT_EQ(Decode(*tokenizer, V{260, 257, 262, 261}, false), "the<tool>");
  EXPECT_EQ(Decode(*tokenizer, V{260, 257, 261}, true), "<|im_start|>the<|im_end|>");
  EXPECT_EQ(Decode(*tokenizer, V{-1, 100'000, 257}, true), "the");
  EXPECT_EQ(tokenizer->model_name(), "gpt2");
  EXPECT_EQ(tokenizer->pre_tokenizer_name(), "gpt-2");
}

// Llama 3's files do not say that a begin token is wanted; the pre-tokenizer's name does.
TEST(Tokenizer, PreTokenizerDecidesAboutTheBeginToken) {
  const TestBytePairs pairs = SomeBytePairs();
  EXPECT_TRUE(Make(pairs.Spec("llama-bpe"))->adds_bos());
  EXPECT_TRUE(Make(pairs.Spec("tekken"))->adds_bos());
  EXPECT_FALSE(Make(pairs.Spec("qwen2"))->adds_bos());
  EXPECT_EQ(Make(pairs.Spec("qwen2"))->bos(), 11);  // llama.cpp's default
  EXPECT_EQ(Make(pairs.Spec("glm4"))->bos(), kNoToken);
  EXPECT_EQ(Make(TestPieces().Spec())->bos(), 1);
  EXPECT_EQ(Make(TestPieces().Spec())->eos(), 2);
  EXPECT_EQ(Make(TestPieces().Spec())->unknown(), 0);
}

TEST(Tokenizer, SpacePrefixFollowsSpecialTokens) {
  TestPieces pieces;
  pieces.AddToken("\u2581", -1);                     // 259
  pieces.AddToken("a", -2);                          // 260
  pieces.AddToken("\u2581a", -0.5f);                 // 261
  pieces.AddToken("<|x|>", 0, TokenType::kControl);  // 262
  TokenizerSpec spec = pieces.Spec();
  using V = std::vector<TokenId>;
  EXPECT_EQ(Make(spec)->Encode("a a", {true, true}), (V{1, 261, 261}));
  EXPECT_EQ(Make(spec)->Encode("a<|x|>a", {false, true}), (V{261, 262, 261}));
  EXPECT_EQ(Make(spec)->Encode("", {true, true}), (V{1}));
  spec.add_space_prefix = false;
  spec.add_bos = false;
  EXPECT_EQ(Make(spec)->Encode("a<|x|> a", {true, true}), (V{260, 262, 261}));
}

// Phi-3 drops white space after its markers, by the model's name.
TEST(Tokenizer, Phi3StripsAfterMarkers) {
  TestPieces pieces;
  pieces.AddToken("\u2581", -1);                        // 259
  pieces.AddToken("a", -2);                             // 260
  pieces.AddToken("<|user|>", 0, TokenType::kControl);  // 261
  TokenizerSpec spec = pieces.Spec();
  spec.add_space_prefix = false;
  spec.general_name = "My PHI-3 mini";
  using V = std::vector<TokenId>;
  EXPECT_EQ(Make(spec)->Encode("<|user|>\n a", {false, true}), (V{261, 260}));
  EXPECT_EQ(Make(spec)->Encode("<s> a", {false, true}), (V{1, 259, 260}));  // <s> does not
  spec.general_name = "Llama";
  EXPECT_EQ(Make(spec)->Encode("<|user|> a", {false, true}), (V{261, 259, 260}));
}

TEST(Tokenizer, PiecesOfOddTokens) {
  TestBytePairs pairs;
  pairs.AddToken("a b");                       // 256: a space is no byte's letter
  pairs.AddToken("<0x41>", TokenType::kByte);  // 257
  pairs.AddToken("<0x4>", TokenType::kByte);   // 258
  pairs.AddToken("gone", TokenType::kUnused);  // 259
  const auto tokenizer = Make(pairs.Spec("gpt-2"));
  using V = std::vector<TokenId>;
  EXPECT_EQ(Decode(*tokenizer, V{256}, false), "a[UNK_BYTE_0x20a b]b");  // llama_decode_text
  EXPECT_EQ(Decode(*tokenizer, V{257, 258, 259}, true), "A");
}

TEST(Tokenizer, RefusesUnknownKindsByName) {
  const TestBytePairs pairs = SomeBytePairs();
  auto tokenizer = Tokenizer::Create(pairs.Spec("gpt-9"));
  ASSERT_FALSE(tokenizer.ok());
  EXPECT_EQ(tokenizer.error().code, ErrorCode::kUnsupportedTokenizer);
  EXPECT_EQ(tokenizer.error().message, "The pre-tokenizer \"gpt-9\" is not supported.");

  TokenizerSpec spec = pairs.Spec("gpt-2");
  spec.model = "bert";
  tokenizer = Tokenizer::Create(spec);
  ASSERT_FALSE(tokenizer.ok());
  EXPECT_EQ(tokenizer.error().code, ErrorCode::kUnsupportedTokenizer);
  EXPECT_NE(tokenizer.error().message.find("\"bert\""), std::string::npos);

  tokenizer = Tokenizer::Create(Gguf());
  ASSERT_FALSE(tokenizer.ok());
  EXPECT_EQ(tokenizer.error().code, ErrorCode::kMissingMetadata);
}

}  // namespace
}  // namespace nonstop
