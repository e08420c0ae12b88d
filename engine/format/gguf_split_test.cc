// Split models made in memory; the split of tests/data is in gguf_files_test.
#include "format/gguf_split.h"

#include <gtest/gtest.h>

#include "base/test_files.h"
#include "format/gguf_writer_for_test.h"

namespace nonstop {
namespace {

Gguf Parse(const GgufWriterForTest& writer) {
  GgufParser parser;
  const Result<bool> complete = parser.Push(writer.Header());
  EXPECT_TRUE(complete.ok() && *complete);
  return parser.Take();
}

Gguf Part(uint16_t number, uint16_t count, int32_t tensor_count,
          const std::vector<std::string>& names) {
  GgufWriterForTest writer;
  writer.Number("split.no", GgufType::kU16, number)
      .Number("split.count", GgufType::kU16, count)
      .Number("split.tensors.count", GgufType::kI32, tensor_count);
  if (number == 0) writer.String("general.architecture", "llama");
  for (const std::string& name : names) writer.Add(name, DType::kF32, {4});
  return Parse(writer);
}

Result<GgufSet> MakeSet(Gguf first, Gguf second) {
  std::vector<Gguf> files;
  files.push_back(std::move(first));
  files.push_back(std::move(second));
  return GgufSet::Create(std::move(files));
}

TEST(GgufSplit, MergesTensorTables) {
  const Result<GgufSet> set = MakeSet(Part(0, 2, 3, {"b"}), Part(1, 2, 3, {"c", "a"}));
  ASSERT_TRUE(set.ok()) << set.error().message;
  EXPECT_EQ(set->file_count(), 2u);
  EXPECT_EQ(set->tensor_count(), 3u);
  EXPECT_EQ(set->metadata().FindString("general.architecture")->value(), "llama");
  EXPECT_EQ(set->FindTensor("a")->file_index, 1u);
  EXPECT_EQ(set->FindTensor("b")->file_index, 0u);
  EXPECT_EQ(set->FindTensor("d"), nullptr);
  std::string order;
  set->ForEachTensor([&](const GgufTensor& tensor) { order += tensor.name; });
  EXPECT_EQ(order, "bca");
}

TEST(GgufSplit, AFileAloneIsASetOfOne) {
  GgufWriterForTest writer;
  writer.Add("t", DType::kF32, {4});
  std::vector<Gguf> files;
  files.push_back(Parse(writer));
  const Result<GgufSet> set = GgufSet::Create(std::move(files));
  ASSERT_TRUE(set.ok());
  EXPECT_EQ(set->FindTensor("t")->size_bytes, 16u);
}

TEST(GgufSplit, WrongSetsAreNamed) {
  const auto expect = [](const Result<GgufSet>& set, const char* message) {
    ASSERT_FALSE(set.ok()) << message;
    EXPECT_EQ(set.error().code, ErrorCode::kMalformed);
    EXPECT_EQ(set.error().message, message);
  };
  expect(MakeSet(Part(0, 3, 2, {"a"}), Part(1, 3, 2, {"b"})),
         "The model has (3) files, of which (2) were given.");
  expect(MakeSet(Part(0, 2, 2, {"a"}), Part(0, 2, 2, {"b"})),
         "File (2) of the split says that it is number (1).");
  expect(MakeSet(Part(0, 2, 2, {"a"}), Part(1, 4, 2, {"b"})),
         "File (2) belongs to a split of (4) files, the first one to a split of (2).");
  expect(MakeSet(Part(0, 2, 3, {"a"}), Part(1, 2, 3, {"b"})),
         "The files of the split hold (2) tensors, where (3) are promised.");
  expect(MakeSet(Part(0, 2, 2, {"a"}), Part(1, 2, 2, {"a"})),
         "Two files of the split hold a tensor \"a\".");
}

TEST(GgufSplit, WrongSplitKeysAreNamed) {
  EXPECT_EQ(ReadSplitInfo(Part(2, 2, 1, {"a"})).error().message,
            "The split has (2) files, but this is number (2).");
  EXPECT_EQ(ReadSplitInfo(Part(0, 2'000, 1, {"a"})).error().message,
            "The split has (2,000) files, more than the limit of (1024).");
  GgufWriterForTest writer;
  writer.U32("split.count", 2).U32("split.no", 0);
  const Error error = ReadSplitInfo(Parse(writer)).error();
  EXPECT_EQ(error.code, ErrorCode::kMissingMetadata);
  EXPECT_EQ(error.message,
            "The metadata key \"split.tensors.count\" is missing from a file of a split.");
}

TEST(GgufSplit, NamesOfAllFilesFollowFromAnyOfThem) {
  const std::vector<std::string> wanted = {"d/m-00001-of-00003.gguf", "d/m-00002-of-00003.gguf",
                                           "d/m-00003-of-00003.gguf"};
  EXPECT_EQ(*SplitFileNames("d/m-00001-of-00003.gguf", 3), wanted);
  EXPECT_EQ(*SplitFileNames("d/m-00003-of-00003.gguf", 3), wanted);
  EXPECT_EQ((*SplitFileNames("https://x/m-00001-of-00002.gguf?download=true", 2))[1],
            "https://x/m-00002-of-00002.gguf?download=true");
}

TEST(GgufSplit, OtherNamesAreRefused) {
  for (const char* name : {"model.gguf", "", "-00001-of-00003.gguf", "m-00001-of-00003.bin",
                           "m-0001-of-00003.gguf", "m-00004-of-00003.gguf", "m-00000-of-00003.gguf",
                           "m-0000x-of-00003.gguf", "m-00001_of-00003.gguf"}) {
    const auto names = SplitFileNames(name, 3);
    ASSERT_FALSE(names.ok()) << name;
    EXPECT_EQ(names.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(names.error().message, std::string("The model has (3) files, but the name \"") +
                                         name +
                                         "\" is not of the form \"name-00001-of-00003.gguf\".");
  }
  EXPECT_EQ(SplitFileNames("m-00001-of-00002.gguf", 3).error().message,
            "The model has (3) files, but the name \"m-00001-of-00002.gguf\" says (2).");
}

}  // namespace
}  // namespace nonstop
