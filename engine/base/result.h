// Result<T>: a value or an Error, for everything that depends on the outside world.
// An Error is a code (the same in C++, TypeScript and on the command line) and a full sentence;
// callers that know more put their context in front ("Model \"x.gguf\": Tensor ...").
// Non-goals: exceptions, error categories, source locations.
#pragma once

#include <cstdint>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"

namespace nonstop {

// The order is part of the binary interface; append only. Names: ErrorCodeName.
enum class ErrorCode : uint8_t {
  kInternal = 1,             // a fault of ours
  kInvalidArgument,          // an option or a request field is out of range
  kNotGguf,                  // the bytes are no GGUF file (HTML, LFS pointer, empty, ...)
  kTruncated,                // the file ends before what it promises
  kMalformed,                // a length, offset, count or type in the file cannot be right
  kUnsupportedVersion,       // a GGUF version that we do not read
  kUnsupportedArchitecture,  // general.architecture has no row in the registry
  kUnsupportedType,          // a tensor type that we do not compute with
  kUnsupportedTokenizer,     // tokenizer model or pre-tokenizer unknown
  kMissingMetadata,          // a required key is not there
  kMissingTensor,            // a required tensor is not there
  kWrongShape,               // a tensor's shape does not fit the hyper-parameters
  kBadWeights,               // NaN or infinity in the weights, or in the logits computed from them
  kContextOverflow,          // the prompt does not fit the context
  kOutOfMemory,              // memory.grow failed or a stated limit was reached
  kTemplateError,            // the chat template is hostile or wrong
  kNoTemplate,               // the model has no chat template and the request needs one
  kNotFound,                 // no such file, model or URL
  kNetwork,                  // download failed
  kStorage,                  // cache folder not writable, disk or quota full
  kAborted,                  // the caller asked to stop
  kTimeout,                  // a bounded wait ended
  kBusy,                     // port or resource in use, too many requests
  kBackendFailed,            // self-test or device failed
  kWrongState,               // called in the wrong order
};

// "internal", "invalid_argument", "not_gguf", ...
const char* ErrorCodeName(ErrorCode code);

struct [[nodiscard]] Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;

  // Puts `context` in front: "Context: message".
  Error With(std::string_view context) &&;
};

// printf-style constructor: MakeError(ErrorCode::kTruncated, "Tensor \"%s\" ends at byte
// (%llu)...")
[[gnu::format(printf, 2, 3)]] Error MakeError(ErrorCode code, const char* format, ...);

// Owns an Error on the heap. Results carry errors as one pointer, so that the code of passing one
// on, which is everywhere, is small.
class [[nodiscard]] ErrorBox {
 public:
  ErrorBox() = default;
  explicit ErrorBox(Error error) : error_(New(std::move(error))) {}
  ErrorBox(ErrorBox&& other) noexcept : error_(std::exchange(other.error_, nullptr)) {}
  ErrorBox& operator=(ErrorBox&& other) noexcept {
    std::swap(error_, other.error_);
    return *this;
  }
  ErrorBox(const ErrorBox&) = delete;
  ErrorBox& operator=(const ErrorBox&) = delete;
  ~ErrorBox() {
    if (error_ != nullptr) Delete(error_);
  }

  bool is_empty() const { return error_ == nullptr; }
  Error& operator*() const { return *error_; }

 private:
  static Error* New(Error error);
  static void Delete(Error* error);

  Error* error_ = nullptr;
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) { new (&value_) T(std::move(value)); }  // NOLINT(*-explicit-*)
  Result(Error error) : error_(std::move(error)) {}       // NOLINT(*-explicit-*)
  Result(ErrorBox error) : error_(std::move(error)) {     // NOLINT(*-explicit-*)
    CHECK(!error_.is_empty());
  }
  Result(Result&& other) noexcept : error_(std::move(other.error_)), is_taken_(other.is_taken_) {
    // A result whose error was taken or moved has neither: it may only be destroyed.
    if (!error_.is_empty()) {
      other.is_taken_ = true;
    } else if (!is_taken_) {
      new (&value_) T(std::move(other.value_));
    }
  }
  Result& operator=(Result&& other) noexcept {
    if (this != &other) {
      this->~Result();
      new (this) Result(std::move(other));
    }
    return *this;
  }
  Result(const Result&) = delete;
  Result& operator=(const Result&) = delete;
  ~Result() {
    if (ok()) value_.~T();
  }

  bool ok() const { return error_.is_empty() && !is_taken_; }
  explicit operator bool() const { return ok(); }
  T& value() & {
    CHECK(ok());
    return value_;
  }
  const T& value() const& {
    CHECK(ok());
    return value_;
  }
  T&& value() && {
    CHECK(ok());
    return std::move(value_);
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  const Error& error() const& {
    CHECK(!error_.is_empty());
    return *error_;
  }
  Error&& error() && {
    CHECK(!error_.is_empty());
    return std::move(*error_);
  }
  // Passes the error on without looking into it. The result may then only be destroyed.
  ErrorBox TakeError() {
    is_taken_ = true;
    return std::move(error_);
  }

 private:
  ErrorBox error_;
  bool is_taken_ = false;
  union {
    T value_;
  };
};

// Result<void>: success or an Error.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}     // NOLINT(*-explicit-*)
  Result(ErrorBox error) : error_(std::move(error)) {}  // NOLINT(*-explicit-*)
  bool ok() const { return error_.is_empty(); }
  explicit operator bool() const { return ok(); }
  const Error& error() const& {
    CHECK(!ok());
    return *error_;
  }
  Error&& error() && {
    CHECK(!ok());
    return std::move(*error_);
  }
  ErrorBox TakeError() { return std::move(error_); }

 private:
  ErrorBox error_;
};

using Status = Result<void>;

}  // namespace nonstop

#define NONSTOP_CONCAT_INNER(a, b) a##b
#define NONSTOP_CONCAT(a, b) NONSTOP_CONCAT_INNER(a, b)

// TRY(expression): returns its Error from the enclosing function, if it has one.
#define TRY(expression)                                  \
  do {                                                   \
    auto&& try_result = (expression);                    \
    if (!try_result.ok()) return try_result.TakeError(); \
  } while (0)

// ASSIGN_OR_RETURN(auto x, F()): x = *F(), or returns F's Error.
#define ASSIGN_OR_RETURN(declaration, expression)         \
  auto NONSTOP_CONCAT(result_, __LINE__) = (expression);  \
  if (!NONSTOP_CONCAT(result_, __LINE__).ok())            \
    return NONSTOP_CONCAT(result_, __LINE__).TakeError(); \
  declaration = std::move(NONSTOP_CONCAT(result_, __LINE__)).value()
