// Ids, pieces, special ids and end tokens against llama.cpp's, on real and synthetic vocabularies.
#include <gtest/gtest.h>

#include "base/test_json.h"
#include "text/tokenizer_for_test.h"

namespace nonstop {
namespace {

TestJson ReadJson(const std::string& path) {
  auto bytes = ReadTestFile(path);
  EXPECT_TRUE(bytes.ok()) << bytes.error().message;
  if (!bytes.ok()) return TestJson::Parse("null");
  return TestJson::Parse(
      std::string_view(reinterpret_cast<const char*>(bytes->data()), bytes->size()));
}

std::vector<TokenId> Ids(const TestJson& json) {
  std::vector<TokenId> ids;
  for (const TestJson& id : json) ids.push_back(static_cast<TokenId>(id.AsInt()));
  return ids;
}

std::string FromHex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::strtoul(hex.substr(i, 2).c_str(), nullptr, 16)));
  }
  return bytes;
}

// A model file that set-up fetches (./test does).
#define LOAD_MODEL(tokenizer, name)                                           \
  auto tokenizer##_result = ReadTestTokenizer(TestModelPath(name));           \
  ASSERT_TRUE(tokenizer##_result.ok()) << tokenizer##_result.error().message; \
  const Tokenizer& tokenizer = **tokenizer##_result

void ExpectGolden(const Tokenizer& tokenizer, const char* model) {
  const TestJson golden = ReadJson(TestDataPath("golden_tokens.json"));
  const TestJson& tokens = golden[model]["tokens"];
  ASSERT_GT(tokens.size(), 20u);
  for (const TestJson& row : tokens) {
    const std::string& text = row["text"].AsString();
    EXPECT_EQ(tokenizer.Encode(text, {false, false}), Ids(row["ids"])) << text;
    EXPECT_EQ(tokenizer.Encode(text, {true, true}), Ids(row["ids_special"])) << text;
  }
}

void ExpectFacts(const Tokenizer& tokenizer, const TestJson& facts) {
  EXPECT_EQ(tokenizer.vocabulary_size(), facts["size"].AsInt());
  EXPECT_EQ(tokenizer.bos(), facts["bos"].AsInt());
  EXPECT_EQ(tokenizer.eos(), facts["eos"].AsInt());
  EXPECT_EQ(tokenizer.adds_bos(), facts["add_bos"].AsBool());
  EXPECT_EQ(tokenizer.adds_eos(), facts["add_eos"].AsBool());
  const auto ends = tokenizer.end_tokens();
  EXPECT_EQ(std::vector<TokenId>(ends.begin(), ends.end()), Ids(facts["end_of_generation"]));
  for (const TokenId id : ends) EXPECT_TRUE(tokenizer.IsEnd(id));
}

void ExpectPieces(const Tokenizer& tokenizer, const TestJson& rows) {
  ASSERT_GT(rows.size(), 100u);
  for (const TestJson& row : rows) {
    const auto id = static_cast<TokenId>(row[size_t{0}].AsInt());
    std::string plain;
    std::string special;
    tokenizer.AppendPiece(id, false, &plain);
    tokenizer.AppendPiece(id, true, &special);
    EXPECT_EQ(plain, FromHex(row[1].AsString())) << id;
    EXPECT_EQ(special, FromHex(row[2].AsString())) << id;
  }
}

// The 500 strings of strings.json and the facts, as in tokens_<name>.json.
void ExpectReference(const Tokenizer& tokenizer, const std::string& name) {
  const TestJson strings = ReadJson(TestDataPath("strings.json"));
  const TestJson expected = ReadJson(TestDataPath("tokens_" + name + ".json"));
  ASSERT_EQ(strings.size(), 500u);
  ASSERT_EQ(expected["ids"].size(), strings.size());
  ASSERT_EQ(expected["ids_special"].size(), strings.size());
  for (size_t i = 0; i < strings.size(); ++i) {
    const std::string& text = strings[i].AsString();
    EXPECT_EQ(tokenizer.Encode(text, {false, false}), Ids(expected["ids"][i])) << i << ": " << text;
    EXPECT_EQ(tokenizer.Encode(text, {true, true}), Ids(expected["ids_special"][i]))
        << i << ": " << text;
  }
  ExpectFacts(tokenizer, expected["facts"]);
  ExpectPieces(tokenizer, expected["pieces"]);
}

TEST(TokenizerReference, SmolLm2) {
  LOAD_MODEL(tokenizer, "smollm2-135m-instruct");
  ExpectGolden(tokenizer, "smollm2");
  ExpectReference(tokenizer, "smollm2");
}

TEST(TokenizerReference, Gemma3) {
  LOAD_MODEL(tokenizer, "gemma-3-270m");
  ExpectGolden(tokenizer, "gemma3");
  ExpectReference(tokenizer, "gemma3");
}

class SyntheticVocabulary : public testing::TestWithParam<const char*> {};

TEST_P(SyntheticVocabulary, EqualsLlamaCpp) {
  const std::string name = GetParam();
  auto tokenizer = ReadTestTokenizer(TestDataPath("vocab/" + name + ".gguf"));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  ExpectReference(**tokenizer, name);
}

INSTANTIATE_TEST_SUITE_P(TokenizerReference, SyntheticVocabulary,
                         testing::Values("bpe_gpt-2", "bpe_smollm", "bpe_llama-bpe", "bpe_qwen2",
                                         "bpe_deepseek-llm", "bpe_tekken", "spm_prefix",
                                         "spm_noprefix", "spm_phi3"));

}  // namespace
}  // namespace nonstop
