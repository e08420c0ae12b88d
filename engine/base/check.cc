#include "base/check.h"

#include <cstdarg>
#include <string>

#include <unistd.h>

#include "base/format.h"

namespace nonstop {

void CheckFailed(const char* condition, const char* file, int line) {
  const std::string text = Format("nonstop: check failed: %s (%s:%d)\n", condition, file, line);
  [[maybe_unused]] const ssize_t written = write(2, text.data(), text.size());
  __builtin_trap();
}

}  // namespace nonstop

#if defined(__wasm__)
// libc++'s own faults (an allocation that fails, an index out of range) stop the module likewise;
// its default would bring all of printf. libc++ declares this function for programs to define.
_LIBCPP_BEGIN_NAMESPACE_STD
[[noreturn]] void __libcpp_verbose_abort(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const std::string text = nonstop::FormatV(format, arguments);
  va_end(arguments);
  nonstop::CheckFailed(text.c_str(), "libc++", 0);
}
_LIBCPP_END_NAMESPACE_STD
#endif
