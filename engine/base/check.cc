#include "base/check.h"

#include <cstdio>

namespace nonstop {

void CheckFailed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "nonstop: check failed: %s (%s:%d)\n", condition, file, line);
  std::fflush(stderr);
  __builtin_trap();
}

}  // namespace nonstop
