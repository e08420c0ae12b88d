// GGUF headers from arbitrary bytes: pushed whole and in pieces they must give the same, every view
// must lie inside the header, and the data after it streams into exactly the tensors' bytes.
// The first byte of the input seeds the sizes of the pieces.
#include <algorithm>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "format/gguf.h"
#include "format/gguf_split.h"
#include "format/tensor_stream.h"

namespace nonstop {
namespace {

// Small, so that the fuzzer meets the limits.
constexpr GgufLimits kLimits = {.header_size_bytes = 1 << 16,
                                .metadata_count = 64,
                                .tensor_count = 64,
                                .array_length = 4'096,
                                .key_size_bytes = 256,
                                .tensor_name_size_bytes = 64,
                                .array_nesting = 3};

// A piece size from 1 to 64, other each time.
class PieceSizes {
 public:
  explicit PieceSizes(uint32_t seed) : state_(seed) {}
  size_t Next(size_t available) {
    state_ = state_ * 1'664'525 + 1'013'904'223;
    return std::min<size_t>(available, 1 + (state_ >> 26));
  }

 private:
  uint32_t state_;
};

struct Outcome {
  bool is_complete = false;
  std::string error;
  Gguf gguf;
};

Outcome Finish(GgufParser& parser, const Result<bool>& last) {
  Outcome out;
  if (!last.ok()) {
    out.error = last.error().message;
    CHECK(out.error.ends_with('.'));
  } else if (*last) {
    out.is_complete = true;
    out.gguf = parser.Take();
  } else {
    out.error = parser.Truncated().message;
    CHECK(out.error.ends_with('.'));
  }
  return out;
}

Outcome ParseWhole(std::span<const std::byte> bytes) {
  GgufParser parser(kLimits);
  return Finish(parser, parser.Push(bytes));
}

Outcome ParseInPieces(std::span<const std::byte> bytes, uint32_t seed) {
  GgufParser parser(kLimits);
  PieceSizes sizes(seed);
  Result<bool> last = false;
  while (!bytes.empty() && last.ok() && !*last) {
    const size_t size = sizes.Next(bytes.size());
    last = parser.Push(bytes.first(size));
    bytes = bytes.subspan(size);
  }
  return Finish(parser, last);
}

void CheckSame(const Gguf& a, const Gguf& b) {
  CHECK(a.data_offset_bytes() == b.data_offset_bytes());
  CHECK(a.metadata_count() == b.metadata_count());
  for (size_t i = 0; i < a.metadata_count(); ++i) {
    CHECK(a.KeyAt(i) == b.KeyAt(i));
    CHECK(a.ValueAt(i).type == b.ValueAt(i).type);
    CHECK(std::ranges::equal(a.ValueAt(i).bytes, b.ValueAt(i).bytes));
    CHECK(a.Find(a.KeyAt(i)) == &a.ValueAt(i));
  }
  CHECK(a.tensors().size() == b.tensors().size());
  for (size_t i = 0; i < a.tensors().size(); ++i) {
    const GgufTensor& tensor = a.tensors()[i];
    CHECK(tensor.name == b.tensors()[i].name);
    CHECK(tensor.offset_bytes == b.tensors()[i].offset_bytes);
    CHECK(a.FindTensor(tensor.name) == &tensor);
    CHECK(tensor.offset_bytes % a.alignment() == 0 && tensor.size_bytes != 0);
    CHECK(tensor.size_bytes ==
          RowSizeBytes(tensor.dtype, tensor.column_count()) * tensor.row_count());
    CHECK(i == 0 || tensor.offset_bytes >= a.tensors()[i - 1].end_bytes());
    CHECK(tensor.end_bytes() <= a.file_size_bytes());
  }
}

// Reads every byte of every value through each look-up.
void ReadAllValues(const Gguf& gguf) {
  volatile uint8_t sink = 0;
  for (size_t i = 0; i < gguf.metadata_count(); ++i) {
    const std::string_view key = gguf.KeyAt(i);
    for (const std::byte byte : gguf.ValueAt(i).bytes) sink = static_cast<uint8_t>(byte);
    (void)gguf.FindUint(key);
    (void)gguf.FindFloat(key);
    (void)gguf.FindBool(key);
    (void)gguf.FindString(key);
    (void)gguf.FindFloatArray(key);
    (void)gguf.FindIntArray(key);
    const Result<std::optional<GgufStringArray>> strings = gguf.FindStringArray(key);
    if (!strings.ok() || !*strings) continue;
    (**strings).ForEach([&](uint64_t, std::string_view text) {
      for (const char c : text) sink = static_cast<uint8_t>(c);
    });
  }
  (void)sink;
  (void)CheckComputable(gguf);
}

void CheckStream(const Gguf& gguf, std::span<const std::byte> file, uint32_t seed) {
  const auto data = file.subspan(static_cast<size_t>(gguf.data_offset_bytes()));
  TensorStream stream(gguf.tensors(), gguf.data_offset_bytes());
  PieceSizes sizes(seed);
  for (auto rest = data; !rest.empty();) {
    const size_t size = sizes.Next(rest.size());
    const Status status = stream.Push(rest.first(size), [&](const TensorPiece& piece) {
      const uint64_t at = piece.tensor->offset_bytes + piece.offset_bytes;
      CHECK(piece.bytes.data() == file.data() + at);
      CHECK(piece.offset_bytes + piece.bytes.size() <= piece.tensor->size_bytes);
      return Status();
    });
    CHECK(status.ok());
    rest = rest.subspan(size);
  }
  CHECK(stream.Finish().ok() == (gguf.file_size_bytes() <= file.size()));
}

void TestOneInput(std::span<const std::byte> input) {
  if (input.empty()) return;
  const auto seed = static_cast<uint32_t>(input[0]);
  const auto file = input.subspan(1);
  Outcome whole = ParseWhole(file);
  const Outcome pieces = ParseInPieces(file, seed);
  CHECK(whole.is_complete == pieces.is_complete);
  CHECK(whole.error == pieces.error);
  if (!whole.is_complete) return;
  CheckSame(whole.gguf, pieces.gguf);
  ReadAllValues(whole.gguf);
  CheckStream(whole.gguf, file, seed);
  std::vector<Gguf> files;
  files.push_back(std::move(whole.gguf));
  (void)GgufSet::Create(std::move(files));
}

}  // namespace
}  // namespace nonstop

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  nonstop::TestOneInput({reinterpret_cast<const std::byte*>(data), size});
  return 0;
}
