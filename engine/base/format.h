// printf into std::string. (std::format costs 380 KB in the wasm module, snprintf nothing.)
#pragma once

#include <cstdarg>
#include <cstdint>
#include <string>
#include <string_view>

namespace nonstop {

[[gnu::format(printf, 1, 2)]] std::string Format(const char* format, ...);
std::string FormatV(const char* format, va_list arguments);

[[gnu::format(printf, 2, 3)]] void AppendFormat(std::string& out, const char* format, ...);

// 1234567 -> "1,234,567", as numbers stand in messages. Text in place: messages have many of these,
// and a std::string each would cost the module kilobytes.
class GroupedNumber {
 public:
  explicit GroupedNumber(uint64_t value);
  const char* c_str() const { return text_; }
  operator std::string() const { return text_; }  // NOLINT(google-explicit-constructor)

 private:
  char text_[27];  // 20 digits, 6 commas
};
inline GroupedNumber Grouped(uint64_t value) { return GroupedNumber(value); }

// Text from outside made safe for a message: control bytes and invalid UTF-8 become '?',
// at most `limit` bytes, "..." marks a cut.
std::string Printable(std::string_view text, size_t limit = 80);

}  // namespace nonstop
