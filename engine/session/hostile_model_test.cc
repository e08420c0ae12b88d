// Damaged, lying and foreign model files: an error with the right code and a sentence, wherever a
// file ends (hundreds of places; more in the header, where each byte means something), and the
// engine can load a good file afterwards.
#include <gtest/gtest.h>

#include <cstring>

#include "session/engine_for_test.h"

namespace nonstop {
namespace {

using Bytes = std::vector<std::byte>;

Bytes TinyFile(const char* name = "llama_tied") {
  auto bytes = ReadTestFile(TestDataPath(std::string("tiny/") + name + ".gguf"));
  CHECK(bytes.ok());
  return std::move(*bytes);
}

size_t Find(const Bytes& bytes, std::string_view text) {
  const std::string_view all(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const size_t at = all.find(text);
  CHECK(at != std::string_view::npos);
  return at;
}

// The value of a number key: behind the key's text and its type.
void PatchKey(Bytes* bytes, std::string_view key, uint32_t value) {
  StoreLe(bytes->data() + Find(*bytes, key) + key.size() + 4, value);
}
void PatchText(Bytes* bytes, std::string_view from, std::string_view to) {
  CHECK(from.size() == to.size());
  std::memcpy(bytes->data() + Find(*bytes, from), to.data(), to.size());
}
// A tensor's entry: name, dimension count, dimensions, type, offset.
void PatchDimension(Bytes* bytes, std::string_view tensor, size_t index, uint64_t value) {
  StoreLe(bytes->data() + Find(*bytes, tensor) + tensor.size() + 4 + 8 * index, value);
}
void PatchType(Bytes* bytes, std::string_view tensor, uint32_t dimension_count, uint32_t type) {
  StoreLe(bytes->data() + Find(*bytes, tensor) + tensor.size() + 4 + 8 * dimension_count, type);
}

struct Loaded {
  Status status;
  std::unique_ptr<TestEngine> engine;
};

class TestHost {
 public:
  TestHost() {
    auto engine =
        Engine::Create({}, &clock_, &sink_,
                       std::make_unique<cpu::CpuBackendFactory>(&pool_, cpu::CpuBackendOptions()));
    CHECK(engine.ok());
    engine_ = std::move(*engine);
  }
  Status Load(std::span<const std::byte> bytes, size_t piece_bytes = Loader::kMaxPieceBytes) {
    Loader& loader = engine_->loader();
    TRY(loader.BeginFile(0, -1.0));
    for (size_t at = 0; at < bytes.size();) {
      const size_t want = std::min(bytes.size() - at, piece_bytes);
      ASSIGN_OR_RETURN(const std::span<std::byte> place,
                       loader.Reserve(static_cast<uint32_t>(want)));
      std::memcpy(place.data(), bytes.data() + at, place.size());
      at += place.size();
      ASSIGN_OR_RETURN(const LoadProgress progress,
                       loader.Commit(static_cast<uint32_t>(place.size())));
      if (progress == LoadProgress::kHeaderComplete) TRY(engine_->AfterHeader());
    }
    TRY(loader.EndFile());
    return engine_->FinishLoading();
  }
  Engine& engine() { return *engine_; }
  ReplySink& sink() { return sink_; }

 private:
  SteadyClock clock_;
  ReplySink sink_;
  cpu::Pool pool_;
  std::unique_ptr<Engine> engine_;
};

Error LoadError(const Bytes& bytes, size_t piece_bytes = Loader::kMaxPieceBytes) {
  TestHost host;
  Status status = host.Load(bytes, piece_bytes);
  if (status.ok()) return {ErrorCode::kInternal, "it loaded"};
  return std::move(status).error();
}

TEST(HostileModel, TheGoodFileLoads) {
  EXPECT_EQ(LoadError(TinyFile()).message, "it loaded");
  EXPECT_EQ(LoadError(TinyFile(), 7).message, "it loaded");
}

TEST(HostileModel, AFileThatEndsEarlyIsTruncatedWhereverItEnds) {
  const Bytes whole = TinyFile();
  const size_t header = Find(whole, "blk.0.attn_norm.weight");
  for (size_t size = 0; size < whole.size(); size += size < header + 2000 ? 97 : 4099) {
    const Error error = LoadError({whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size)});
    EXPECT_EQ(error.code, size < 4 ? ErrorCode::kNotGguf : ErrorCode::kTruncated)
        << size << ": " << error.message;
    EXPECT_EQ(error.message.back(), '.') << error.message;
  }
  EXPECT_EQ(LoadError({whole.begin(), whole.end() - 1}).code, ErrorCode::kTruncated);
}

struct Damage {
  const char* name;
  void (*apply)(Bytes*);
  ErrorCode code;
  const char* part;  // of the message
};

class DamageTest : public testing::TestWithParam<Damage> {};

TEST_P(DamageTest, IsNamed) {
  Bytes bytes = TinyFile();
  GetParam().apply(&bytes);
  const Error error = LoadError(bytes);
  EXPECT_EQ(error.code, GetParam().code) << error.message;
  EXPECT_NE(error.message.find(GetParam().part), std::string::npos) << error.message;
  EXPECT_EQ(error.message.back(), '.');
}

INSTANTIATE_TEST_SUITE_P(
    All, DamageTest,
    testing::Values(
        Damage{"Architecture",
               [](Bytes* b) {
                 const std::string_view key = "general.architecture";
                 std::memcpy(b->data() + Find(*b, key) + key.size() + 12, "mamba", 5);
               },
               ErrorCode::kUnsupportedArchitecture, "Architecture (mamba) is not supported"},
        Damage{"NoLayers", [](Bytes* b) { PatchKey(b, "llama.block_count", 0); },
               ErrorCode::kMalformed, "\"llama.block_count\" has value (0)"},
        Damage{"ManyLayers", [](Bytes* b) { PatchKey(b, "llama.block_count", 4'000'000'000u); },
               ErrorCode::kMalformed, "(4000000000)"},
        Damage{"OneLayerMore", [](Bytes* b) { PatchKey(b, "llama.block_count", 3); },
               ErrorCode::kMissingTensor, "\"blk.2.attn_norm.weight\" is missing"},
        Damage{"OneLayerLess", [](Bytes* b) { PatchKey(b, "llama.block_count", 1); },
               ErrorCode::kUnsupportedArchitecture, "\"blk.1."},
        Damage{"NoHeads", [](Bytes* b) { PatchKey(b, "llama.attention.head_count", 0); },
               ErrorCode::kMalformed, "head_count\" has value (0)"},
        Damage{"NanEpsilon",
               [](Bytes* b) { PatchKey(b, "llama.attention.layer_norm_rms_epsilon", 0x7fc00000); },
               ErrorCode::kMalformed, "epsilon\" has value (nan), no number"},
        Damage{"NegativeEpsilon",
               [](Bytes* b) { PatchKey(b, "llama.attention.layer_norm_rms_epsilon", 0xbf800000); },
               ErrorCode::kMalformed, "epsilon\" has value (-1), below 0"},
        Damage{"OddHeads", [](Bytes* b) { PatchKey(b, "llama.attention.head_count", 7); },
               ErrorCode::kMalformed, "(7)"},
        Damage{"WideModel", [](Bytes* b) { PatchKey(b, "llama.embedding_length", 65'000); },
               ErrorCode::kMalformed, ""},
        Damage{"OtherFeedForward", [](Bytes* b) { PatchKey(b, "llama.feed_forward_length", 64); },
               ErrorCode::kWrongShape, "ffn_gate.weight\" has shape"},
        Damage{"NoContext", [](Bytes* b) { PatchKey(b, "llama.context_length", 0); },
               ErrorCode::kMalformed, "context_length"},
        Damage{"NanEps",
               [](Bytes* b) { PatchKey(b, "llama.attention.layer_norm_rms_epsilon", 0x7fc00000u); },
               ErrorCode::kMalformed, "layer_norm_rms_epsilon"},
        Damage{"MissingTensor",
               [](Bytes* b) { PatchText(b, "blk.1.attn_q.weight", "blk.1.attn_Q.weight"); },
               ErrorCode::kMissingTensor, "Tensor \"blk.1.attn_q.weight\" is missing."},
        Damage{"DuplicateTensor",
               [](Bytes* b) { PatchText(b, "blk.1.attn_q.weight", "blk.0.attn_q.weight"); },
               ErrorCode::kMalformed, "blk.0.attn_q.weight"},
        Damage{"HugeDimension",
               [](Bytes* b) { PatchDimension(b, "blk.0.attn_q.weight", 1, uint64_t{1} << 62); },
               ErrorCode::kMalformed, "blk.0.attn_q.weight"},
        Damage{"UnknownType", [](Bytes* b) { PatchType(b, "blk.0.attn_q.weight", 2, 4); },
               ErrorCode::kUnsupportedType, "blk.0.attn_q.weight"},
        Damage{"NanInNorm",
               [](Bytes* b) {
                 // Tensor data end with the file; the last tensor's last value.
                 const std::string_view name = "blk.0.attn_norm.weight";
                 const std::byte* entry = b->data() + Find(*b, name) + name.size();
                 const auto offset = LoadLe<uint64_t>(entry + 4 + 8 + 4);
                 GgufParser parser;
                 CHECK(*parser.Push(*b));
                 StoreLe(b->data() + parser.header_size_bytes() + offset, 0x7fc00000u);
               },
               ErrorCode::kBadWeights,
               "Tensor \"blk.0.attn_norm.weight\" holds NaN or infinity (row 0"}),
    [](const auto& info) { return info.param.name; });

TEST(HostileModel, InfinityInAQuantizedScaleIsNamed) {
  Bytes bytes = TinyFile("type_q4_0");
  const std::string_view name = "blk.0.attn_q.weight";
  const std::byte* entry = bytes.data() + Find(bytes, name) + name.size();
  const auto offset = LoadLe<uint64_t>(entry + 4 + 16 + 4);
  GgufParser parser;
  ASSERT_TRUE(*parser.Push(bytes));
  const auto column_count = LoadLe<uint64_t>(entry + 4);
  const uint64_t row_bytes = column_count / 32 * 18;
  StoreLe<uint16_t>(bytes.data() + parser.header_size_bytes() + offset + 3 * row_bytes, 0x7c00);
  const Error error = LoadError(bytes);
  EXPECT_EQ(error.code, ErrorCode::kBadWeights);
  EXPECT_NE(error.message.find("(row 3 of type Q4_0)"), std::string::npos) << error.message;
}

TEST(HostileModel, ForeignFilesAreNamed) {
  const auto error_of = [](std::string_view text) {
    Bytes bytes(text.size());
    if (!text.empty()) std::memcpy(bytes.data(), text.data(), text.size());
    const Error error = LoadError(bytes);
    EXPECT_EQ(error.code, ErrorCode::kNotGguf) << error.message;
    return error.message;
  };
  EXPECT_NE(error_of("").find("empty"), std::string::npos);
  EXPECT_NE(error_of("<!DOCTYPE html><html><body>404</body></html>").find("HTML"),
            std::string::npos);
  EXPECT_NE(error_of("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
                .find("Git LFS"),
            std::string::npos);
  EXPECT_NE(error_of("not a model at all").find("GGUF"), std::string::npos);
}

TEST(HostileModel, CallsInTheWrongOrderAreErrors) {
  TestHost host;
  EXPECT_EQ(host.engine().FinishLoading().error().code, ErrorCode::kWrongState);
  EXPECT_EQ(host.engine().AfterHeader().error().code, ErrorCode::kWrongState);
  EXPECT_EQ(host.engine().loader().Commit(1).error().code, ErrorCode::kWrongState);
  EXPECT_EQ(host.engine().loader().BeginFile(1, -1).error().code, ErrorCode::kWrongState);
  EXPECT_EQ(host.engine().Start({}).error().code, ErrorCode::kWrongState);
  EXPECT_EQ(host.engine().Pump(1e6), PumpStatus::kIdle);
  EXPECT_EQ(host.engine().ModelJson().error().code, ErrorCode::kWrongState);
}

TEST(HostileModel, AFileSizeThatCannotBeIsRefusedAtTheHeader) {
  const Bytes bytes = TinyFile();
  TestHost host;
  Loader& loader = host.engine().loader();
  ASSERT_TRUE(loader.BeginFile(0, static_cast<double>(bytes.size() - 100)).ok());
  const auto place = loader.Reserve(static_cast<uint32_t>(bytes.size()));
  std::memcpy(place->data(), bytes.data(), place->size());
  EXPECT_EQ(loader.Commit(static_cast<uint32_t>(place->size())).error().code,
            ErrorCode::kTruncated);
}

}  // namespace
}  // namespace nonstop
