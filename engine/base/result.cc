#include "base/result.h"

#include <cstdarg>

#include "base/format.h"

namespace nonstop {

const char* ErrorCodeName(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInternal:
      return "internal";
    case ErrorCode::kInvalidArgument:
      return "invalid_argument";
    case ErrorCode::kNotGguf:
      return "not_gguf";
    case ErrorCode::kTruncated:
      return "truncated";
    case ErrorCode::kMalformed:
      return "malformed";
    case ErrorCode::kUnsupportedVersion:
      return "unsupported_version";
    case ErrorCode::kUnsupportedArchitecture:
      return "unsupported_architecture";
    case ErrorCode::kUnsupportedType:
      return "unsupported_type";
    case ErrorCode::kUnsupportedTokenizer:
      return "unsupported_tokenizer";
    case ErrorCode::kMissingMetadata:
      return "missing_metadata";
    case ErrorCode::kMissingTensor:
      return "missing_tensor";
    case ErrorCode::kWrongShape:
      return "wrong_shape";
    case ErrorCode::kBadWeights:
      return "bad_weights";
    case ErrorCode::kContextOverflow:
      return "context_overflow";
    case ErrorCode::kOutOfMemory:
      return "out_of_memory";
    case ErrorCode::kTemplateError:
      return "template_error";
    case ErrorCode::kNoTemplate:
      return "no_template";
    case ErrorCode::kNotFound:
      return "not_found";
    case ErrorCode::kNetwork:
      return "network";
    case ErrorCode::kStorage:
      return "storage";
    case ErrorCode::kAborted:
      return "aborted";
    case ErrorCode::kTimeout:
      return "timeout";
    case ErrorCode::kBusy:
      return "busy";
    case ErrorCode::kBackendFailed:
      return "backend_failed";
    case ErrorCode::kWrongState:
      return "wrong_state";
  }
  return "internal";
}

Error Error::With(std::string_view context) && {
  std::string text(context);
  text += ": ";
  text += message;
  return Error{code, std::move(text)};
}

Error* ErrorBox::New(Error error) { return new Error(std::move(error)); }
void ErrorBox::Delete(Error* error) { delete error; }

Error MakeError(ErrorCode code, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::string message = FormatV(format, arguments);
  va_end(arguments);
  return Error{code, std::move(message)};
}

}  // namespace nonstop
