// CHECK: a programmer's error, always on: prints one line and stops the module (a wasm trap).
// DCHECK: an invariant on a hot path, on in debug builds only.
// Bad input from outside is never one of these: it is a Result (base/result.h).
#pragma once

namespace nonstop {

[[noreturn]] void CheckFailed(const char* condition, const char* file, int line);

}  // namespace nonstop

#define CHECK(condition)                             \
  (__builtin_expect(static_cast<bool>(condition), 1) \
       ? (void)0                                     \
       : ::nonstop::CheckFailed(#condition, __FILE_NAME__, __LINE__))

#ifdef NDEBUG
#define DCHECK(condition) ((void)0)
#else
#define DCHECK(condition) CHECK(condition)
#endif
