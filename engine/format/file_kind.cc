// A table of signatures, then the two kinds that need a look at the text.
#include "format/file_kind.h"

#include <algorithm>
#include <string_view>

#include "base/bytes.h"
#include "base/format.h"
#include "format/byte_cursor.h"

namespace nonstop {
namespace {

constexpr std::string_view kGgufMagic = "GGUF";

struct Signature {
  std::string_view prefix;
  const char* description;  // completes "The file is ..., not a GGUF model."
};

// GGML's own older formats wrote their magic as a little-endian number, so it stands reversed.
constexpr Signature kSignatures[] = {
    {"version https://git-lfs", "a Git LFS pointer (the model itself was not downloaded)"},
    {"version https://hawser", "a Git LFS pointer (the model itself was not downloaded)"},
    {"PK\x03\x04", "a zip archive (perhaps a PyTorch checkpoint)"},
    {"\x1f\x8b", "compressed with gzip"},
    {"\x28\xb5\x2f\xfd", "compressed with zstd"},
    {"\xfd"
     "7zXZ",
     "compressed with xz"},
    {"BZh", "compressed with bzip2"},
    {"7z\xbc\xaf", "a 7-Zip archive"},
    {"\x80\x02", "a Python pickle (perhaps a PyTorch checkpoint)"},
    {"\x80\x03", "a Python pickle (perhaps a PyTorch checkpoint)"},
    {"\x80\x04", "a Python pickle (perhaps a PyTorch checkpoint)"},
    {"\x80\x05", "a Python pickle (perhaps a PyTorch checkpoint)"},
    {"\x89HDF", "an HDF5 file"},
    {"lmgg", "in GGML's oldest format, which is not supported"},
    {"fmgg", "in the old GGMF format, which is not supported"},
    {"tjgg", "in the old GGJT format, which is not supported"},
    {"algg", "a GGLA adapter, which is not supported"},
    {"ggml", "in GGML's oldest format, which is not supported"},
    {"ggmf", "in the old GGMF format, which is not supported"},
    {"ggjt", "in the old GGJT format, which is not supported"},
    {"FUGG", "a GGUF file with its bytes in big-endian order, which is not supported"},
};

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool StartsWithIgnoringCase(std::string_view text, std::string_view lower_prefix) {
  return text.size() >= lower_prefix.size() &&
         std::equal(lower_prefix.begin(), lower_prefix.end(), text.begin(),
                    [](char wanted, char c) { return Lower(c) == wanted; });
}

std::string_view WithoutLeadingSpace(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);  // byte order mark
  while (!text.empty() && std::string_view(" \t\r\n\f").contains(text.front())) {
    text.remove_prefix(1);
  }
  return text;
}

// A length of 8 bytes, then JSON. https://huggingface.co/docs/safetensors: at most 100 MB.
bool IsSafetensors(std::string_view text) {
  if (text.size() < 9 || text[8] != '{') return false;
  const auto header_size_bytes = LoadLe<uint64_t>(text.data());
  return header_size_bytes >= 2 && header_size_bytes <= 100'000'000;
}

const char* Describe(std::string_view text) {
  for (const Signature& signature : kSignatures) {
    if (text.starts_with(signature.prefix)) return signature.description;
  }
  if (IsSafetensors(text)) return "in the safetensors format";
  const std::string_view body = WithoutLeadingSpace(text);
  for (const std::string_view tag : {"<!doctype", "<html", "<head", "<!--", "<?xml"}) {
    if (StartsWithIgnoringCase(body, tag)) return "a web page (HTML)";
  }
  if (body.starts_with('{') || body.starts_with('[')) return "JSON text";
  return nullptr;
}

}  // namespace

bool MayBeGguf(std::span<const std::byte> prefix) {
  const std::string_view text = AsText(prefix);
  const size_t common = std::min(text.size(), kGgufMagic.size());
  return text.substr(0, common) == kGgufMagic.substr(0, common);
}

Error DescribeNotGguf(std::span<const std::byte> prefix) {
  if (prefix.empty()) return MakeError(ErrorCode::kNotGguf, "The file is empty.");
  const std::string_view text = AsText(prefix);
  if (const char* description = Describe(text)) {
    return MakeError(ErrorCode::kNotGguf, "The file is %s, not a GGUF model.", description);
  }
  return MakeError(ErrorCode::kNotGguf,
                   "The file starts with (%s), where a GGUF model starts with (GGUF).",
                   Printable(text.substr(0, 4)).c_str());
}

}  // namespace nonstop
