// Pieces of every size must give each tensor exactly its bytes, and a short file a sentence.
#include "format/tensor_stream.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "format/gguf_writer_for_test.h"

namespace nonstop {
namespace {

using Bytes = std::vector<std::byte>;

// Sizes 12, 34 and 4 bytes, so that there is padding between them.
GgufWriterForTest MakeWriter() {
  GgufWriterForTest writer;
  writer.Add("a", DType::kF32, {3}).Add("b", DType::kQ8_0, {32}).Add("c", DType::kF16, {2});
  return writer;
}

struct Collected {
  std::map<std::string, Bytes> tensors;
  std::string order;
  Status status;
  bool is_complete = false;
};

// Pushes `data` (what follows the header) and puts the pieces together.
Collected Collect(const Gguf& gguf, std::span<const std::byte> data, size_t piece_size_bytes) {
  TensorStream stream(gguf.tensors(), gguf.data_offset_bytes());
  Collected out;
  for (size_t start = 0; start < data.size(); start += piece_size_bytes) {
    const size_t size = std::min(piece_size_bytes, data.size() - start);
    const Status status = stream.Push(data.subspan(start, size), [&](const TensorPiece& piece) {
      Bytes& bytes = out.tensors[piece.tensor->name];
      EXPECT_EQ(piece.offset_bytes, bytes.size()) << piece.tensor->name;
      EXPECT_FALSE(piece.bytes.empty());
      if (piece.offset_bytes == 0) out.order += piece.tensor->name;
      bytes.insert(bytes.end(), piece.bytes.begin(), piece.bytes.end());
      return Status();
    });
    EXPECT_TRUE(status.ok());
    EXPECT_EQ(stream.position_bytes(), gguf.data_offset_bytes() + start + size);
  }
  out.status = stream.Finish();
  out.is_complete = stream.is_complete();
  return out;
}

class TensorStreamTest : public testing::Test {
 protected:
  TensorStreamTest() : file_(MakeWriter().File()) {
    GgufParser parser;
    EXPECT_TRUE(*parser.Push(file_));
    gguf_ = parser.Take();
  }
  std::span<const std::byte> data() const {
    return std::span(file_).subspan(static_cast<size_t>(gguf_.data_offset_bytes()));
  }

  Bytes file_;
  Gguf gguf_;
};

TEST_F(TensorStreamTest, GivesEachTensorItsBytesInFileOrder) {
  for (const size_t piece_size_bytes : {1u, 5u, 32u, 4096u}) {
    const Collected out = Collect(gguf_, data(), piece_size_bytes);
    EXPECT_TRUE(out.status.ok());
    EXPECT_TRUE(out.is_complete);
    EXPECT_EQ(out.order, "abc");
    for (const GgufTensor& tensor : gguf_.tensors()) {
      const auto begin = file_.begin() + static_cast<std::ptrdiff_t>(tensor.offset_bytes);
      const Bytes wanted(begin, begin + static_cast<std::ptrdiff_t>(tensor.size_bytes));
      EXPECT_EQ(out.tensors.at(tensor.name), wanted) << tensor.name;
    }
  }
}

TEST_F(TensorStreamTest, NamesTheTensorThatAShortFileCuts) {
  const uint64_t end = gguf_.file_size_bytes() - gguf_.data_offset_bytes();
  ASSERT_EQ(end, 32u + 64 + 4);
  for (size_t size = 0; size < end; ++size) {
    const Collected out = Collect(gguf_, data().first(size), 7);
    ASSERT_FALSE(out.status.ok()) << size;
    EXPECT_FALSE(out.is_complete);
    EXPECT_EQ(out.status.error().code, ErrorCode::kTruncated);
  }
  const uint64_t start = gguf_.data_offset_bytes();
  EXPECT_EQ(Collect(gguf_, data().first(40), 7).status.error().message,
            "Tensor \"b\" ends at byte (" + std::to_string(start + 66) +
                "), past the end of the file (" + std::to_string(start + 40) + ").");
}

TEST_F(TensorStreamTest, PaddingAfterTheLastTensorIsIgnored) {
  Bytes longer(data().begin(), data().end());
  longer.resize(longer.size() + 100);
  EXPECT_TRUE(Collect(gguf_, longer, 9).status.ok());
}

TEST_F(TensorStreamTest, AVisitorsErrorEndsThePush) {
  TensorStream stream(gguf_.tensors(), gguf_.data_offset_bytes());
  int call_count = 0;
  const Status status = stream.Push(data(), [&](const TensorPiece& piece) -> Status {
    ++call_count;
    if (piece.tensor->name == "b") return MakeError(ErrorCode::kBadWeights, "NaN.");
    return {};
  });
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kBadWeights);
  EXPECT_EQ(call_count, 2);
}

TEST(TensorStream, NoTensorsAreCompleteAtOnce) {
  TensorStream stream({}, 0);
  EXPECT_TRUE(stream.is_complete());
  EXPECT_TRUE(stream.Finish().ok());
}

}  // namespace
}  // namespace nonstop
