#include "base/format.h"

#include <cstdio>

namespace nonstop {

std::string FormatV(const char* format, va_list arguments) {
  char small[256];
  va_list copy;
  va_copy(copy, arguments);
  const int length = std::vsnprintf(small, sizeof(small), format, copy);
  va_end(copy);
  if (length < 0) return std::string(format);
  if (static_cast<size_t>(length) < sizeof(small)) return std::string(small, length);
  std::string out(static_cast<size_t>(length), '\0');
  std::vsnprintf(out.data(), out.size() + 1, format, arguments);
  return out;
}

std::string Format(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::string out = FormatV(format, arguments);
  va_end(arguments);
  return out;
}

void AppendFormat(std::string& out, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  out += FormatV(format, arguments);
  va_end(arguments);
}

GroupedNumber::GroupedNumber(uint64_t value) {
  char digits[21];
  const int digit_count =
      std::snprintf(digits, sizeof(digits), "%llu", static_cast<unsigned long long>(value));
  char* out = text_;
  for (int i = 0; i < digit_count; ++i) {
    if (i != 0 && (digit_count - i) % 3 == 0) *out++ = ',';
    *out++ = digits[i];
  }
  *out = '\0';
}

std::string Printable(std::string_view text, size_t limit) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (out.size() >= limit) {
      out += "...";
      break;
    }
    const auto byte = static_cast<unsigned char>(text[i]);
    out += (byte >= 0x20 && byte < 0x7f) ? text[i] : '?';
  }
  return out;
}

}  // namespace nonstop
