// For tests only: finds and reads the repository's files. The root is $NONSTOP_ROOT, or what the
// build says (under wasm the runner shows the repository as "/").
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace nonstop {

inline std::string RepositoryPath(std::string_view name) {
  const char* root = std::getenv("NONSTOP_ROOT");
#if defined(NONSTOP_TEST_ROOT)
  if (root == nullptr) root = NONSTOP_TEST_ROOT;
#elif defined(NONSTOP_SOURCE_DIR)
  if (root == nullptr) root = NONSTOP_SOURCE_DIR;
#endif
  if (root == nullptr) root = ".";
  std::string path = root;
  if (!path.ends_with('/')) path += '/';
  return path.append(name);
}

// A file that is part of the repository.
inline std::string TestDataPath(std::string_view name) {
  return RepositoryPath("tests/data/").append(name);
}

// "smollm2-135m-instruct" or "gemma-3-270m"; set-up may not have fetched it.
inline std::string TestModelPath(std::string_view name) {
  return RepositoryPath(".deps/models/").append(name).append(".gguf");
}

// The file's bytes, at most `limit_bytes` of them; kNotFound if it cannot be opened.
inline Result<std::vector<std::byte>> ReadTestFile(const std::string& path,
                                                   size_t limit_bytes = SIZE_MAX) {
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) {
    return MakeError(ErrorCode::kNotFound, "The file \"%s\" cannot be opened.", path.c_str());
  }
  constexpr size_t kStepBytes = 1 << 20;
  std::vector<std::byte> bytes;
  while (bytes.size() < limit_bytes) {
    const size_t before = bytes.size();
    const size_t room = limit_bytes - before < kStepBytes ? limit_bytes - before : kStepBytes;
    bytes.resize(before + room);
    const size_t read = std::fread(bytes.data() + before, 1, room, file);
    bytes.resize(before + read);
    if (read < room) break;
  }
  std::fclose(file);
  return bytes;
}

}  // namespace nonstop
