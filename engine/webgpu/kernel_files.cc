#include "webgpu/kernel_files.h"

#include <cstdint>
#include <iterator>
#include <string>

#include "base/check.h"

namespace nonstop {
namespace {

struct KernelFile {
  std::string_view name;
  uint32_t begin;
  uint32_t size;
};

#include "webgpu/kernel_files.inc"

constexpr uint8_t kFirstCopy = 128;  // below: a character
constexpr uint32_t kLeastCopy = 4;

std::string Unpack() {
  std::string text;
  text.reserve(kTextBytes);
  for (const uint8_t* at = std::begin(kPacked); at != std::end(kPacked); ++at) {
    if (*at < kFirstCopy) {
      text += static_cast<char>(*at);
      continue;
    }
    uint32_t count = *at - kFirstCopy + kLeastCopy;
    const size_t distance = at[1] + (size_t{at[2]} << 8);
    at += 2;
    while (count-- > 0) text += text[text.size() - distance];  // may read what it has just written
  }
  CHECK(text.size() == kTextBytes);
  return text;
}

}  // namespace

std::string_view FindKernelFile(std::string_view name) {
  static const std::string* const kText = new std::string(Unpack());  // a constant, once unpacked
  for (const KernelFile& file : kFiles) {
    if (file.name == name) return std::string_view(*kText).substr(file.begin, file.size);
  }
  CHECK(!"no such kernel file");
  return {};
}

}  // namespace nonstop
