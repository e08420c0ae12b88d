// Files of others: tiny ones from tests/data (written by gguf-py) and the two real models. Numbers
// are what gguf-py's GGUFReader says of them.
#include <gtest/gtest.h>

#include "base/test_files.h"
#include "format/gguf.h"
#include "format/gguf_split.h"
#include "format/tensor_stream.h"

namespace nonstop {
namespace {

using Bytes = std::vector<std::byte>;

// Parses in pieces of 64 KiB, as a host pushes them.
Result<Gguf> ParseFile(const Bytes& bytes, uint64_t file_size_bytes) {
  constexpr size_t kPieceSizeBytes = 64 * 1024;
  GgufParser parser;
  for (size_t start = 0; start < bytes.size(); start += kPieceSizeBytes) {
    const size_t size = std::min(kPieceSizeBytes, bytes.size() - start);
    ASSIGN_OR_RETURN(const bool complete, parser.Push(std::span(bytes).subspan(start, size)));
    if (!complete) continue;
    TRY(parser.CheckFileSize(file_size_bytes));
    return parser.Take();
  }
  return parser.Truncated();
}

Result<Gguf> ParseTiny(const char* name) {
  ASSIGN_OR_RETURN(const Bytes bytes, ReadTestFile(TestDataPath(std::string("tiny/") + name)));
  return ParseFile(bytes, bytes.size());
}

struct WantedTensor {
  const char* name;
  DType dtype;
  uint64_t column_count;
  uint64_t row_count;
  uint64_t offset_bytes;
  uint64_t size_bytes;
};

void ExpectTensor(const Gguf& gguf, const WantedTensor& wanted) {
  const GgufTensor* tensor = gguf.FindTensor(wanted.name);
  ASSERT_NE(tensor, nullptr) << wanted.name;
  EXPECT_EQ(tensor->dtype, wanted.dtype);
  EXPECT_EQ(tensor->column_count(), wanted.column_count);
  EXPECT_EQ(tensor->row_count(), wanted.row_count);
  EXPECT_EQ(tensor->offset_bytes, wanted.offset_bytes);
  EXPECT_EQ(tensor->size_bytes, wanted.size_bytes);
}

uint64_t TokenCount(const Gguf& gguf) {
  return gguf.FindStringArray("tokenizer.ggml.tokens")->value().count();
}

TEST(GgufFiles, TinyVersion3) {
  const Result<Gguf> gguf = ParseTiny("type_q4_k.gguf");
  ASSERT_TRUE(gguf.ok()) << gguf.error().message;
  EXPECT_EQ(gguf->version(), 3u);
  EXPECT_EQ(gguf->tensors().size(), 11u);
  EXPECT_EQ(gguf->data_offset_bytes(), 5'856u);
  EXPECT_EQ(gguf->FindString("general.architecture")->value(), "llama");
  ExpectTensor(*gguf, {"blk.0.ffn_down.weight", DType::kQ4_K, 256, 256, 216'736, 36'864});
  EXPECT_TRUE(CheckComputable(*gguf).ok());
}

TEST(GgufFiles, TinyVersion2) {
  const Result<Gguf> gguf = ParseTiny("version2.gguf");
  ASSERT_TRUE(gguf.ok()) << gguf.error().message;
  EXPECT_EQ(gguf->version(), 2u);
  EXPECT_EQ(gguf->tensors().size(), 11u);
  ExpectTensor(*gguf, {"blk.0.ffn_down.weight", DType::kQ4_0, 160, 96, 53'856, 8'640});
}

TEST(GgufFiles, TinySplit) {
  const Result<Gguf> first = ParseTiny("split-00001-of-00003.gguf");
  ASSERT_TRUE(first.ok()) << first.error().message;
  const Result<SplitInfo> info = ReadSplitInfo(*first);
  ASSERT_TRUE(info.ok()) << info.error().message;
  EXPECT_EQ(info->count, 3u);
  EXPECT_EQ(info->tensor_count, 11u);
  std::vector<Gguf> files;
  const auto names = SplitFileNames("split-00001-of-00003.gguf", info->count);
  ASSERT_TRUE(names.ok());
  for (const std::string& name : *names) {
    Result<Gguf> file = ParseTiny(name.c_str());
    ASSERT_TRUE(file.ok()) << file.error().message;
    files.push_back(*std::move(file));
  }
  const Result<GgufSet> set = GgufSet::Create(std::move(files));
  ASSERT_TRUE(set.ok()) << set.error().message;
  EXPECT_EQ(set->tensor_count(), 11u);
  EXPECT_EQ(set->FindTensor("blk.0.attn_q.weight")->offset_bytes, 22'016u);
  EXPECT_EQ(set->FindTensor("blk.0.attn_q.weight")->file_index, 0u);
  EXPECT_EQ(set->FindTensor("blk.0.ffn_norm.weight")->file_index, 1u);
  EXPECT_EQ(set->FindTensor("blk.0.ffn_down.weight")->file_index, 2u);
  EXPECT_EQ(set->FindTensor("blk.0.ffn_down.weight")->size_bytes, 8'640u);
}

// The stream's pieces put the whole file together again, but for the padding.
TEST(GgufFiles, TinyStreamEqualsTheFile) {
  const Result<Bytes> bytes = ReadTestFile(TestDataPath("tiny/type_mix_small.gguf"));
  ASSERT_TRUE(bytes.ok()) << bytes.error().message;
  const Result<Gguf> gguf = ParseFile(*bytes, bytes->size());
  ASSERT_TRUE(gguf.ok()) << gguf.error().message;
  TensorStream stream(gguf->tensors(), gguf->data_offset_bytes());
  uint64_t same_count = 0;
  uint64_t tensor_bytes = 0;
  for (const GgufTensor& tensor : gguf->tensors()) tensor_bytes += tensor.size_bytes;
  for (size_t at = static_cast<size_t>(gguf->data_offset_bytes()); at < bytes->size(); at += 999) {
    const auto part =
        std::span(*bytes).subspan(at).first(std::min<size_t>(999, bytes->size() - at));
    const Status status = stream.Push(part, [&](const TensorPiece& piece) {
      const auto offset = static_cast<size_t>(piece.tensor->offset_bytes + piece.offset_bytes);
      const bool same = std::equal(piece.bytes.begin(), piece.bytes.end(),
                                   bytes->begin() + static_cast<std::ptrdiff_t>(offset));
      if (same) same_count += piece.bytes.size();
      return Status();
    });
    ASSERT_TRUE(status.ok());
  }
  EXPECT_TRUE(stream.Finish().ok());
  EXPECT_EQ(same_count, tensor_bytes);
}

// A file cut at byte `n` is an error for every n: in the header, or at CheckFileSize.
TEST(GgufFiles, TinyTruncatedAnywhere) {
  const Result<Bytes> bytes = ReadTestFile(TestDataPath("tiny/version2.gguf"));
  ASSERT_TRUE(bytes.ok()) << bytes.error().message;
  // The last tensor's end: what stands after it is padding, without which the file is whole.
  const auto end = static_cast<size_t>(ParseFile(*bytes, bytes->size())->file_size_bytes());
  for (size_t size = 1; size < end; size += size < 6'000 ? 1 : 97) {
    const Bytes cut(bytes->begin(), bytes->begin() + static_cast<std::ptrdiff_t>(size));
    const Result<Gguf> gguf = ParseFile(cut, size);
    ASSERT_FALSE(gguf.ok()) << size;
    ASSERT_EQ(gguf.error().code, ErrorCode::kTruncated) << size << gguf.error().message;
  }
}

TEST(GgufFiles, SmolLm2) {
  const std::string path = TestModelPath("smollm2-135m-instruct");
  const Result<Bytes> bytes = ReadTestFile(path, 8 << 20);
  ASSERT_TRUE(bytes.ok()) << bytes.error().message << " Set-up fetches it (./test does).";
  const Result<Gguf> gguf = ParseFile(*bytes, 98'362'432);
  ASSERT_TRUE(gguf.ok()) << gguf.error().message;
  EXPECT_EQ(gguf->tensors().size(), 272u);
  EXPECT_EQ(gguf->metadata_count(), 33u);
  EXPECT_EQ(gguf->data_offset_bytes(), 1'785'664u);
  EXPECT_EQ(gguf->file_size_bytes(), 98'362'432u);
  EXPECT_EQ(TokenCount(*gguf), 49'152u);
  EXPECT_EQ(gguf->FindUint("llama.attention.head_count_kv")->value(), 3u);
  EXPECT_EQ(gguf->FindFloat("llama.attention.layer_norm_rms_epsilon")->value(), 1e-5f);
  ExpectTensor(*gguf, {"token_embd.weight", DType::kQ8_0, 576, 49'152, 1'785'664, 30'081'024});
  ExpectTensor(*gguf, {"blk.3.ffn_up.weight", DType::kQ4_1, 576, 1'536, 83'953'216, 552'960});
  EXPECT_TRUE(CheckComputable(*gguf).ok());
  EXPECT_EQ(ParseFile(*bytes, 98'362'431).error().code, ErrorCode::kTruncated);
}

TEST(GgufFiles, Gemma3) {
  const std::string path = TestModelPath("gemma-3-270m");
  const Result<Bytes> bytes = ReadTestFile(path, 8 << 20);
  ASSERT_TRUE(bytes.ok()) << bytes.error().message << " Set-up fetches it (./test does).";
  const Result<Gguf> gguf = ParseFile(*bytes, 253'113'024);
  ASSERT_TRUE(gguf.ok()) << gguf.error().message;
  EXPECT_EQ(gguf->tensors().size(), 236u);
  EXPECT_EQ(gguf->data_offset_bytes(), 6'525'120u);
  EXPECT_EQ(gguf->file_size_bytes(), 253'113'024u);
  EXPECT_EQ(TokenCount(*gguf), 262'144u);
  EXPECT_EQ(gguf->FindFloatArray("tokenizer.ggml.scores")->value().size(), 262'144u);
  EXPECT_EQ(gguf->FindIntArray("tokenizer.ggml.token_type")->value().size(), 262'144u);
  ExpectTensor(*gguf, {"blk.3.ffn_up.weight", DType::kQ5_0, 640, 2'048, 199'063'232, 901'120});
  ExpectTensor(*gguf, {"token_embd.weight", DType::kQ8_0, 640, 262'144, 6'527'680, 178'257'920});
  EXPECT_TRUE(CheckComputable(*gguf).ok());
}

}  // namespace
}  // namespace nonstop
