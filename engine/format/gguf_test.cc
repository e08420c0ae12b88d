// What a whole and right header gives, however it is cut into pieces.
#include "format/gguf.h"

#include <gtest/gtest.h>

#include "base/test_files.h"
#include "format/gguf_values.h"
#include "format/gguf_writer_for_test.h"

namespace nonstop {
namespace {

using Bytes = std::vector<std::byte>;

// Every value type, nesting, an odd alignment, tensors that do not stand in name order.
GgufWriterForTest MakeWriter() {
  GgufWriterForTest writer;
  writer.alignment = 64;
  writer.U32("general.alignment", 64)
      .String("general.architecture", "llama")
      .Number("a.u8", GgufType::kU8, uint8_t{200})
      .Number("a.i8", GgufType::kI8, int8_t{-5})
      .Number("a.u16", GgufType::kU16, uint16_t{60'000})
      .Number("a.i16", GgufType::kI16, int16_t{-30'000})
      .Number("a.i32", GgufType::kI32, int32_t{-2'000'000'000})
      .Number("a.u64", GgufType::kU64, UINT64_MAX)
      .Number("a.i64", GgufType::kI64, int64_t{1} << 40)
      .Number("a.f64", GgufType::kF64, 1e-300)
      .F32("a.f32", 0.25f)
      .Bool("a.bool", 1)
      .String("a.empty", "")
      .String("a.bytes", std::string_view("\xff\0\n\"", 4))
      .Strings("a.strings", {"one", "", "three"})
      .Array<float>("a.floats", GgufType::kF32, {1.5f, -2.0f})
      .Array<int32_t>("a.ints", GgufType::kI32, {3, -4, 5})
      .Array<uint8_t>("a.bools", GgufType::kBool, {1, 0, 1})
      .Array<float>("a.none", GgufType::kF32, {})
      .StartArray("a.nested", GgufType::kArray, 2);
  writer.Raw(uint32_t{4}).Raw(uint64_t{1}).Raw(uint32_t{9});      // [u32]
  writer.Raw(uint32_t{8}).Raw(uint64_t{2}).Text("x").Text("yy");  // [string, string]
  writer.Add("z.weight", DType::kQ4_0, {64, 3})
      .Add("b.weight", DType::kF32, {5})
      .Add("m.weight", DType::kF16, {2, 3, 4, 5});
  return writer;
}

Gguf Parse(const Bytes& bytes, size_t piece_size_bytes) {
  GgufParser parser;
  for (size_t start = 0; start < bytes.size(); start += piece_size_bytes) {
    const size_t size = std::min(piece_size_bytes, bytes.size() - start);
    const Result<bool> complete = parser.Push(std::span(bytes).subspan(start, size));
    EXPECT_TRUE(complete.ok()) << complete.error().message;
    if (!complete.ok()) return {};
    if (*complete) return parser.Take();
  }
  ADD_FAILURE() << parser.Truncated().message;
  return {};
}

std::string TextOf(const Gguf& gguf) {
  std::string text;
  for (size_t i = 0; i < gguf.metadata_count(); ++i) {
    const GgufValue& value = gguf.ValueAt(i);
    text += std::string(gguf.KeyAt(i)) + " " + GgufTypeName(value.type) + " " +
            std::to_string(value.element_count) + " ";
    for (const std::byte byte : value.bytes) text += std::to_string(static_cast<int>(byte)) + ",";
    text += "\n";
  }
  for (const GgufTensor& tensor : gguf.tensors()) {
    text += tensor.name + " " + GetDType(tensor.dtype).name;
    for (const uint64_t dimension : tensor.dimensions) text += " " + std::to_string(dimension);
    text += " @" + std::to_string(tensor.offset_bytes) + "+" + std::to_string(tensor.size_bytes);
    text += "\n";
  }
  return text;
}

TEST(Gguf, FindsEveryKindOfValue) {
  const Gguf gguf = Parse(MakeWriter().File(), SIZE_MAX / 2);
  EXPECT_EQ(gguf.version(), 3u);
  EXPECT_EQ(gguf.alignment(), 64u);
  EXPECT_EQ(gguf.metadata_count(), 20u);
  EXPECT_EQ(gguf.FindString("general.architecture")->value(), "llama");
  EXPECT_EQ(gguf.FindUint("a.u8")->value(), 200u);
  EXPECT_EQ(gguf.FindUint("a.u16")->value(), 60'000u);
  EXPECT_EQ(gguf.FindUint("a.u64")->value(), UINT64_MAX);
  EXPECT_EQ(gguf.FindUint("a.i64")->value(), uint64_t{1} << 40);
  EXPECT_EQ(gguf.FindFloat("a.f32")->value(), 0.25);
  EXPECT_EQ(gguf.FindFloat("a.f64")->value(), 1e-300);
  EXPECT_EQ(gguf.FindFloat("a.i16")->value(), -30'000.0);
  EXPECT_EQ(gguf.FindBool("a.bool")->value(), true);
  EXPECT_EQ(gguf.FindString("a.empty")->value(), "");
  EXPECT_EQ(gguf.FindString("a.bytes")->value(), std::string_view("\xff\0\n\"", 4));
  EXPECT_EQ(gguf.FindFloatArray("a.floats")->value(), (std::vector<float>{1.5f, -2.0f}));
  EXPECT_EQ(gguf.FindFloatArray("a.none")->value(), std::vector<float>());
  EXPECT_EQ(gguf.FindIntArray("a.ints")->value(), (std::vector<int32_t>{3, -4, 5}));
  EXPECT_EQ(gguf.FindIntArray("a.bools")->value(), (std::vector<int32_t>{1, 0, 1}));
  std::vector<std::string> strings;
  const Result<std::optional<GgufStringArray>> array = gguf.FindStringArray("a.strings");
  array->value().ForEach([&](uint64_t index, std::string_view text) {
    EXPECT_EQ(index, strings.size());
    strings.emplace_back(text);
  });
  EXPECT_EQ(strings, (std::vector<std::string>{"one", "", "three"}));
  const GgufValue* nested = gguf.Find("a.nested");
  ASSERT_NE(nested, nullptr);
  EXPECT_EQ(nested->element_type, GgufType::kArray);
  EXPECT_EQ(nested->element_count, 2u);
  EXPECT_EQ(nested->bytes.size(), 12u + 4 + 12 + 9 + 10);
}

TEST(Gguf, AbsentKeysAreNoError) {
  const Gguf gguf = Parse(MakeWriter().File(), 4096);
  EXPECT_EQ(gguf.Find("a.u"), nullptr);
  EXPECT_EQ(gguf.Find(""), nullptr);
  EXPECT_EQ(gguf.Find("zzz"), nullptr);
  EXPECT_FALSE(gguf.FindUint("absent")->has_value());
  EXPECT_FALSE(gguf.FindFloat("absent")->has_value());
  EXPECT_FALSE(gguf.FindBool("absent")->has_value());
  EXPECT_FALSE(gguf.FindString("absent")->has_value());
  EXPECT_FALSE(gguf.FindStringArray("absent")->has_value());
  EXPECT_FALSE(gguf.FindFloatArray("absent")->has_value());
  EXPECT_FALSE(gguf.FindIntArray("absent")->has_value());
}

TEST(Gguf, WrongTypesNameKeyAndTypes) {
  const Gguf gguf = Parse(MakeWriter().File(), 4096);
  const auto expect = [](const auto& result, const char* message) {
    ASSERT_FALSE(result.ok()) << message;
    EXPECT_EQ(result.error().code, ErrorCode::kMalformed);
    EXPECT_EQ(result.error().message, message);
  };
  expect(gguf.FindUint("a.f32"),
         "The metadata key \"a.f32\" is of type (f32), where a whole number is wanted.");
  expect(gguf.FindUint("a.i8"), "The metadata key \"a.i8\" has the negative value (-5).");
  expect(gguf.FindFloat("a.bool"),
         "The metadata key \"a.bool\" is of type (bool), where a number is wanted.");
  expect(gguf.FindBool("a.u8"),
         "The metadata key \"a.u8\" is of type (u8), where a boolean is wanted.");
  expect(gguf.FindString("a.strings"),
         "The metadata key \"a.strings\" is of type (array of string), where a string is wanted.");
  expect(gguf.FindStringArray("a.ints"),
         "The metadata key \"a.ints\" is of type (array of i32), where an array of strings is "
         "wanted.");
  expect(gguf.FindFloatArray("a.ints"),
         "The metadata key \"a.ints\" is of type (array of i32), where an array of floats is "
         "wanted.");
  expect(gguf.FindIntArray("a.nested"),
         "The metadata key \"a.nested\" is of type (array of array), where an array of whole "
         "numbers is wanted.");
}

TEST(Gguf, IntArraysMustFitIn32Bits) {
  GgufWriterForTest writer;
  writer.Array<uint32_t>("x", GgufType::kU32, {1, 0x8000'0000u});
  const Gguf gguf = Parse(writer.File(), 4096);
  EXPECT_EQ(gguf.FindIntArray("x").error().message,
            "The metadata key \"x\" has at index (1) a number that does not fit in (32) bits.");
}

TEST(Gguf, TensorsStandInFileOrderAndAreFoundByName) {
  GgufWriterForTest writer;
  writer.AddAt({"late", {4}, 0, 96}).AddAt({"early", {8, 2}, 0, 0}).AddAt({"a", {1}, 0, 64});
  const Gguf gguf = Parse(writer.Header(), 4096);
  ASSERT_EQ(gguf.tensors().size(), 3u);
  EXPECT_EQ(gguf.tensors()[0].name, "early");
  EXPECT_EQ(gguf.tensors()[1].name, "a");
  EXPECT_EQ(gguf.tensors()[2].name, "late");
  EXPECT_EQ(gguf.data_offset_bytes(), writer.Header().size());
  EXPECT_EQ(gguf.FindTensor("late"), &gguf.tensors()[2]);
  EXPECT_EQ(gguf.FindTensor("late")->offset_bytes, gguf.data_offset_bytes() + 96);
  EXPECT_EQ(gguf.FindTensor("late")->size_bytes, 16u);
  EXPECT_EQ(gguf.FindTensor("early")->column_count(), 8u);
  EXPECT_EQ(gguf.FindTensor("early")->row_count(), 2u);
  EXPECT_EQ(gguf.FindTensor("lat"), nullptr);
  EXPECT_EQ(gguf.file_size_bytes(), gguf.data_offset_bytes() + 112);
}

TEST(Gguf, PiecesOfAnySizeGiveTheSame) {
  const Bytes bytes = MakeWriter().File();
  const std::string wanted = TextOf(Parse(bytes, bytes.size()));
  EXPECT_NE(wanted.find("z.weight Q4_0 64 3 1 1"), std::string::npos) << wanted;
  for (const size_t piece_size_bytes : {1u, 7u, 63u, 4096u}) {
    EXPECT_EQ(TextOf(Parse(bytes, piece_size_bytes)), wanted) << piece_size_bytes;
  }
}

TEST(Gguf, HeaderEndsBeforeTheTensorData) {
  const GgufWriterForTest writer = MakeWriter();
  const Bytes file = writer.File();
  GgufParser parser;
  ASSERT_TRUE(*parser.Push(file));
  EXPECT_EQ(parser.header_size_bytes(), writer.Header().size());
  EXPECT_TRUE(*parser.Push(file));  // surplus is ignored
  EXPECT_EQ(parser.Take().data_offset_bytes() % 64, 0u);
}

TEST(Gguf, AFileWithoutTensorsNeedsNoPadding) {
  GgufWriterForTest writer;
  writer.String("only", "metadata");
  GgufParser parser;
  ASSERT_TRUE(*parser.Push(writer.File()));
  EXPECT_EQ(parser.header_size_bytes(), writer.Header().size());
  EXPECT_EQ(parser.Take().file_size_bytes(), writer.Header().size());
  GgufParser empty;
  EXPECT_TRUE(*empty.Push(GgufWriterForTest().File()));
}

TEST(Gguf, Version2IsReadLikeVersion3) {
  GgufWriterForTest writer = MakeWriter();
  const std::string wanted = TextOf(Parse(writer.File(), 4096));
  writer.version = 2;
  const Gguf gguf = Parse(writer.File(), 4096);
  EXPECT_EQ(gguf.version(), 2u);
  EXPECT_EQ(TextOf(gguf), wanted);
}

TEST(Gguf, MoveKeepsViews) {
  Gguf first = Parse(MakeWriter().File(), 4096);
  const Gguf second = std::move(first);
  EXPECT_EQ(second.FindString("general.architecture")->value(), "llama");
  EXPECT_EQ(second.FindTensor("b.weight")->size_bytes, 20u);
}

TEST(Gguf, TypesThatAreNotComputedParseButAreRefusedByName) {
  GgufWriterForTest writer;
  writer.Add("x.weight", DType::kQ4_K, {256});
  EXPECT_TRUE(CheckComputable(Parse(writer.File(), 4096)).ok());
  writer.Add("blk.0.ffn_up.weight", DType::kIQ2_XXS, {512, 2});
  const Gguf gguf = Parse(writer.File(), 4096);
  EXPECT_EQ(gguf.FindTensor("blk.0.ffn_up.weight")->size_bytes, 4u * 66);
  const Status status = CheckComputable(gguf);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kUnsupportedType);
  EXPECT_EQ(status.error().message,
            "Tensor \"blk.0.ffn_up.weight\" is of type (IQ2_XXS), which cannot be computed with "
            "here.");
}

// Work must not grow with the prefix: 64 KiB pieces of a vocabulary as large as Gemma's, twice.
TEST(Gguf, LargeVocabulariesParseInPlace) {
  GgufWriterForTest writer;
  std::vector<std::string> words;
  for (int i = 0; i < 262'144; ++i) words.push_back("word" + std::to_string(i * 7919));
  writer.Strings("tokenizer.ggml.tokens", words);
  const Bytes bytes = writer.File();
  for (const size_t piece_size_bytes : {1u, 65'536u}) {
    const Gguf gguf = Parse(bytes, piece_size_bytes);
    uint64_t same_count = 0;
    const Result<std::optional<GgufStringArray>> tokens =
        gguf.FindStringArray("tokenizer.ggml.tokens");
    tokens->value().ForEach(
        [&](uint64_t index, std::string_view text) { same_count += text == words[index] ? 1 : 0; });
    EXPECT_EQ(same_count, words.size());
  }
}

}  // namespace
}  // namespace nonstop
