// Every way in which a header can be wrong: code, and a sentence that names the thing.
#include <gtest/gtest.h>

#include "base/test_files.h"
#include "format/gguf.h"
#include "format/gguf_writer_for_test.h"

namespace nonstop {
namespace {

using Bytes = std::vector<std::byte>;

Bytes ToBytes(std::string_view text) {
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  return {data, data + text.size()};
}

// The error that the file ends with: at a Push, or as Truncated when all was pushed.
Error ErrorOf(const Bytes& bytes, size_t piece_size_bytes = 4096, GgufLimits limits = {}) {
  GgufParser parser(limits);
  for (size_t start = 0; start < bytes.size(); start += piece_size_bytes) {
    const size_t size = std::min(piece_size_bytes, bytes.size() - start);
    const Result<bool> complete = parser.Push(std::span(bytes).subspan(start, size));
    if (!complete.ok()) return complete.error();
    if (*complete) return {ErrorCode::kInternal, "The file was read without an error."};
  }
  return parser.Truncated();
}

void ExpectError(const Bytes& bytes, ErrorCode code, std::string_view message,
                 GgufLimits limits = {}) {
  for (const size_t piece_size_bytes : {1u, 7u, 4096u}) {
    const Error error = ErrorOf(bytes, piece_size_bytes, limits);
    EXPECT_STREQ(ErrorCodeName(error.code), ErrorCodeName(code)) << error.message;
    EXPECT_EQ(error.message, message) << "in pieces of " << piece_size_bytes;
  }
}

void ExpectMalformed(const GgufWriterForTest& writer, std::string_view message,
                     GgufLimits limits = {}) {
  ExpectError(writer.Header(), ErrorCode::kMalformed, message, limits);
}

TEST(GgufErrors, SaysWhatTheFileIsInstead) {
  const auto expect = [](std::string_view text, const char* description) {
    ExpectError(ToBytes(text), ErrorCode::kNotGguf,
                std::string("The file is ") + description + ", not a GGUF model.");
  };
  expect("<!DOCTYPE html><html>", "a web page (HTML)");
  expect("\r\n\t <HtMl lang=en>", "a web page (HTML)");
  expect("\xef\xbb\xbf<!doctype html>" + std::string(5'000, 'x'), "a web page (HTML)");
  expect("version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 98362432\n",
         "a Git LFS pointer (the model itself was not downloaded)");
  expect("PK\x03\x04 archive/data.pkl", "a zip archive (perhaps a PyTorch checkpoint)");
  expect("\x80\x02}q\x01", "a Python pickle (perhaps a PyTorch checkpoint)");
  expect(std::string_view("\x40\0\0\0\0\0\0\0{\"__metadata__\":{}}", 26),
         "in the safetensors format");
  expect("{\"error\":\"not found\"}", "JSON text");
  expect("\x1f\x8b\x08", "compressed with gzip");
  expect("lmgg\x01", "in GGML's oldest format, which is not supported");
  expect("tjgg\x03", "in the old GGJT format, which is not supported");
  expect("FUGG\x03", "a GGUF file with its bytes in big-endian order, which is not supported");
}

TEST(GgufErrors, EmptyAndUnknownFiles) {
  ExpectError({}, ErrorCode::kNotGguf, "The file is empty.");
  ExpectError(ToBytes("hello, world"), ErrorCode::kNotGguf,
              "The file starts with (hell), where a GGUF model starts with (GGUF).");
  ExpectError(ToBytes(std::string_view("GG\0F", 4)), ErrorCode::kNotGguf,
              "The file starts with (GG?F), where a GGUF model starts with (GGUF).");
}

TEST(GgufErrors, Versions) {
  const auto expect = [](uint32_t version, const char* message) {
    GgufWriterForTest writer;
    writer.version = version;
    ExpectError(writer.Header(), ErrorCode::kUnsupportedVersion, message);
  };
  expect(1, "The GGUF file is of version (1); versions (2) and (3) are supported.");
  expect(4, "The GGUF file is of version (4); versions (2) and (3) are supported.");
  expect(0, "The GGUF file is of version (0); versions (2) and (3) are supported.");
  expect(0x0300'0000, "The GGUF file is in big-endian byte order, which is not supported.");
}

TEST(GgufErrors, TruncatedAtEveryByte) {
  GgufWriterForTest writer;
  writer.U32("a", 1).Strings("words", {"x", "yy"}).Bool("b", 0);
  writer.Add("t.weight", DType::kQ8_0, {32, 2}).Add("u.weight", DType::kF32, {3});
  const Bytes header = writer.Header();
  for (size_t size = 0; size < header.size(); ++size) {
    const Bytes cut(header.begin(), header.begin() + static_cast<std::ptrdiff_t>(size));
    const Error wanted = ErrorOf(cut, 4096);
    EXPECT_EQ(wanted.code, size == 0 ? ErrorCode::kNotGguf : ErrorCode::kTruncated) << size;
    EXPECT_TRUE(wanted.message.ends_with('.')) << wanted.message;
    for (const size_t piece_size_bytes : {1u, 7u}) {
      EXPECT_EQ(ErrorOf(cut, piece_size_bytes).message, wanted.message) << size;
    }
  }
  const auto cut_at = [&](size_t size) {
    return ErrorOf(Bytes(header.begin(), header.begin() + static_cast<std::ptrdiff_t>(size)));
  };
  EXPECT_EQ(cut_at(3).message,
            "The file ends at byte (3), inside the first (24) bytes of a GGUF file.");
  EXPECT_EQ(cut_at(30).message,
            "The file ends at byte (30), before metadata entry (1) of (3) is whole.");
  EXPECT_EQ(cut_at(70).message,
            "The file ends at byte (70), inside the value of the metadata key \"words\".");
  EXPECT_EQ(cut_at(header.size() - 1).message.find("The file ends at byte ("), 0u);
}

TEST(GgufErrors, HugeCountsReturnAtOnce) {
  GgufWriterForTest writer;
  writer.metadata_count = uint64_t{1} << 63;
  ExpectMalformed(writer,
                  "The number of metadata entries (9,223,372,036,854,775,808) is over the limit of "
                  "(65,536).");
  writer.metadata_count = 0;
  writer.tensor_count = UINT64_MAX;
  ExpectMalformed(writer,
                  "The number of tensors (18,446,744,073,709,551,615) is over the limit of "
                  "(65,536).");
  GgufWriterForTest arrays;
  arrays.StartArray("x", GgufType::kF64, uint64_t{1} << 63);
  ExpectMalformed(arrays,
                  "The array length of the metadata key \"x\" (9,223,372,036,854,775,808) is over "
                  "the limit of (4,194,304).");
  GgufWriterForTest strings;
  strings.StartValue("x", GgufType::kString).Raw(UINT64_MAX);
  ExpectMalformed(strings,
                  "The metadata key \"x\" has a string of (18,446,744,073,709,551,615) bytes, past "
                  "the header's limit of (268,435,456).");
}

TEST(GgufErrors, CountsWithinLimitsPromiseNoMemory) {
  GgufWriterForTest writer;
  writer.metadata_count = 65'536;
  writer.tensor_count = 65'536;
  writer.StartArray("x", GgufType::kF64, 4u << 20);
  ExpectError(writer.Header(), ErrorCode::kTruncated,
              "The file ends at byte (49), inside the value of the metadata key \"x\".");
}

TEST(GgufErrors, Keys) {
  GgufWriterForTest empty;
  empty.U32("", 1);
  ExpectMalformed(empty,
                  "Metadata entry (1) has a key of (0) bytes, where (1) to (65,535) are allowed.");
  GgufWriterForTest longest;
  longest.U32(std::string(65'535, 'k'), 1);
  EXPECT_EQ(ErrorOf(longest.Header()).message, "The file was read without an error.");
  GgufWriterForTest too_long;
  too_long.U32("a", 0).U32(std::string(65'536, 'k'), 1);
  ExpectMalformed(
      too_long,
      "Metadata entry (2) has a key of (65,536) bytes, where (1) to (65,535) are allowed.");
  GgufWriterForTest twice;
  twice.U32("a", 1).U32("b", 1).String("a", "x");
  ExpectMalformed(twice, "The metadata key \"a\" is there twice.");
}

TEST(GgufErrors, Values) {
  GgufWriterForTest boolean;
  boolean.Bool("flag", 2);
  ExpectMalformed(boolean,
                  "The metadata key \"flag\" has the boolean (2), where (0) or (1) is allowed.");
  GgufWriterForTest booleans;
  booleans.Array<uint8_t>("flags", GgufType::kBool, {0, 1, 255});
  ExpectMalformed(booleans,
                  "The metadata key \"flags\" has the boolean (255), where (0) or (1) is allowed.");
  GgufWriterForTest type;
  type.StartValue("x", static_cast<GgufType>(13));
  ExpectMalformed(type, "The metadata key \"x\" has a value of the unknown type (13).");
  GgufWriterForTest element;
  element.StartArray("x", static_cast<GgufType>(99), 0);
  ExpectMalformed(element, "The metadata key \"x\" has an array of the unknown type (99).");
}

TEST(GgufErrors, Nesting) {
  const auto nested = [](int depth) {
    GgufWriterForTest writer;
    writer.StartArray("x", GgufType::kArray, 1);
    for (int i = 2; i < depth; ++i) writer.Raw(uint32_t{9}).Raw(uint64_t{1});
    writer.Raw(uint32_t{0}).Raw(uint64_t{1}).Raw(uint8_t{7});
    return writer;
  };
  EXPECT_EQ(ErrorOf(nested(4).Header()).message, "The file was read without an error.");
  ExpectMalformed(nested(5), "The metadata key \"x\" nests arrays deeper than the limit of (4).");
}

TEST(GgufErrors, Alignment) {
  const auto expect = [](uint32_t alignment, const char* value) {
    GgufWriterForTest writer;
    writer.U32("general.alignment", alignment);
    ExpectMalformed(writer, std::string("The metadata key \"general.alignment\" is (") + value +
                                "), no power of two from (1) to (65,536).");
  };
  expect(0, "0");
  expect(48, "48");
  expect(1u << 17, "131,072");
  GgufWriterForTest text;
  text.String("general.alignment", "32");
  ExpectMalformed(
      text,
      "The metadata key \"general.alignment\" is of type (string), where a whole number "
      "is wanted.");
}

TEST(GgufErrors, HeaderLimit) {
  GgufWriterForTest writer;
  writer.U32("a", 1).Add("t", DType::kF32, {1});
  const Bytes header = writer.Header();
  ExpectError(
      header, ErrorCode::kMalformed,
      "The header is larger than the limit of (" + std::to_string(header.size() - 1) + ") bytes.",
      {.header_size_bytes = header.size() - 1});
  EXPECT_EQ(ErrorOf(header, 7, {.header_size_bytes = header.size()}).message,
            "The file was read without an error.");
}

void ExpectTensorError(GgufWriterForTest::Tensor tensor, std::string_view message,
                       ErrorCode code = ErrorCode::kMalformed) {
  GgufWriterForTest writer;
  writer.AddAt(std::move(tensor));
  ExpectError(writer.Header(), code, message);
}

TEST(GgufErrors, TensorFields) {
  ExpectTensorError({std::string(1'025, 'n'), {1}},
                    "Tensor number (1) has a name of (1,025) bytes, more than the limit of "
                    "(1,024).");
  ExpectTensorError({"t", {1, 1, 1, 1, 1}},
                    "Tensor \"t\" has (5) dimensions, more than the (4) that GGUF allows.");
  // Times 4 bytes it would be 0 in 64 bits.
  ExpectTensorError(
      {"t", {uint64_t{1} << 62}},
      "Tensor \"t\" has a dimension (0) of length (4,611,686,018,427,387,904), too many "
      "elements in all.");
  ExpectTensorError({"t", {4, 0}}, "Tensor \"t\" has a dimension (1) of length (0).");
  ExpectTensorError({"t", {uint64_t{1} << 32, uint64_t{1} << 32}},
                    "Tensor \"t\" has a dimension (1) of length (4,294,967,296), too many elements "
                    "in all.");
  ExpectTensorError({"t", {uint64_t{1} << 60}, 28},  // F64
                    "Tensor \"t\" has (1) rows of (9,223,372,036,854,775,808) bytes, more than a "
                    "file holds.");
  ExpectTensorError({"t", {33, 4}, 8},
                    "Tensor \"t\" has rows of (33) elements, no multiple of the (32) in a block of "
                    "type (Q8_0).");
  ExpectTensorError({"t", {32}, 4}, "Tensor \"t\" is of the unknown type (4).",
                    ErrorCode::kUnsupportedType);
  ExpectTensorError({"t", {32}, 0xffff'ffff}, "Tensor \"t\" is of the unknown type (4294967295).",
                    ErrorCode::kUnsupportedType);
  ExpectTensorError({"t", {1}, 0, 33},
                    "Tensor \"t\" has the offset (33), no multiple of the alignment (32).");
  ExpectTensorError({"t", {1}, 0, uint64_t{1} << 63},
                    "Tensor \"t\" has the offset (9,223,372,036,854,775,808), more than a file "
                    "holds.");
}

TEST(GgufErrors, TensorsAgainstEachOther) {
  GgufWriterForTest twice;
  twice.Add("t", DType::kF32, {1}).Add("u", DType::kF32, {1}).Add("t", DType::kF32, {2});
  ExpectMalformed(twice, "There are two tensors of the name \"t\".");
  GgufWriterForTest overlap;
  overlap.AddAt({"big", {16}, 0, 0}).AddAt({"in", {1}, 0, 32});
  const size_t data = overlap.Header().size();
  ExpectMalformed(overlap, "Tensor \"in\" starts at byte (" + std::to_string(data + 32) +
                               "), inside tensor \"big\", which ends at byte (" +
                               std::to_string(data + 64) + ").");
}

TEST(GgufErrors, FileSizeNamesTheTensorPastTheEnd) {
  GgufWriterForTest writer;
  writer.Add("blk.3.ffn_up.weight", DType::kF32, {1'000});
  const Bytes header = writer.Header();
  GgufParser parser;
  ASSERT_TRUE(*parser.Push(header));
  EXPECT_TRUE(parser.CheckFileSize(header.size() + 4'000).ok());
  const Status status = parser.CheckFileSize(header.size() + 3'999);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kTruncated);
  EXPECT_EQ(status.error().message,
            "Tensor \"blk.3.ffn_up.weight\" ends at byte (4,096), past the end of the file "
            "(4,095).");
}

TEST(GgufErrors, ErrorsStay) {
  GgufWriterForTest writer;
  writer.version = 9;
  GgufParser parser;
  const std::string first = parser.Push(writer.Header()).error().message;
  EXPECT_EQ(parser.Push(writer.Header()).error().message, first);
  EXPECT_EQ(parser.Truncated().message, first);
}

TEST(GgufErrors, NamesFromTheFileArePrintable) {
  GgufWriterForTest writer;
  writer.Bool("k\n\x1b[31m" + std::string(200, 'k'), 7);
  const Error error = ErrorOf(writer.Header());
  EXPECT_EQ(error.message.find_first_of("\n\x1b"), std::string::npos);
  EXPECT_LT(error.message.size(), 200u);
}

}  // namespace
}  // namespace nonstop
