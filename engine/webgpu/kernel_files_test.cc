#include "webgpu/kernel_files.h"

#include <gtest/gtest.h>

#include <string>

#include "base/test_files.h"

namespace nonstop {
namespace {

// The file's lines without comments, indentation and empty lines.
std::string Strip(std::string_view text) {
  std::string stripped;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (const size_t comment = line.find("//"); comment != std::string_view::npos) {
      line = line.substr(0, comment);
      line = line.substr(0, line.find_last_not_of(" \t") + 1);
    }
    const size_t begin = line.find_first_not_of(" \t");
    if (begin == std::string_view::npos) continue;
    stripped += line.substr(begin);
    stripped += '\n';
  }
  return stripped;
}

TEST(KernelFiles, UnpackToTheirText) {
  size_t longest = 0;
  for (const char* name : {"attention_decode", "matvec", "dtype_q4_k", "pack", "rms_norm"}) {
    const auto bytes = ReadTestFile(RepositoryPath("engine/webgpu/kernels/") + name + ".wgsl");
    ASSERT_TRUE(bytes.ok()) << bytes.error().message;
    const std::string_view text(reinterpret_cast<const char*>(bytes->data()), bytes->size());
    EXPECT_EQ(FindKernelFile(name), Strip(text)) << name;
    longest = std::max(longest, FindKernelFile(name).size());
  }
  EXPECT_GT(longest, 1000u);
}

}  // namespace
}  // namespace nonstop
