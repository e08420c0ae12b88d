#include "base/json_writer.h"

#include <cmath>

#include "base/format.h"
#include "base/utf8.h"

namespace nonstop {

void JsonWriter::Separate() {
  if (needs_comma_) out_ += ',';
  needs_comma_ = true;
}

JsonWriter& JsonWriter::Open(char bracket) {
  Separate();
  out_ += bracket;
  needs_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::Close(char bracket) {
  out_ += bracket;
  needs_comma_ = true;
  return *this;
}

void JsonWriter::Quote(std::string_view text) {
  out_ += '"';
  while (!text.empty()) {
    const size_t length = Utf8SequenceLength(text);
    if (length == 0) {
      out_ += "\xEF\xBF\xBD";
      text.remove_prefix(1);
      continue;
    }
    const char first = text[0];
    if (first == '"' || first == '\\') {
      out_ += '\\';
      out_ += first;
    } else if (static_cast<unsigned char>(first) < 0x20) {
      AppendFormat(out_, "\\u%04x", static_cast<unsigned>(first));
    } else {
      out_ += text.substr(0, length);
    }
    text.remove_prefix(length);
  }
  out_ += '"';
}

JsonWriter& JsonWriter::Key(std::string_view key) {
  Separate();
  Quote(key);
  out_ += ':';
  needs_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::String(std::string_view text) {
  Separate();
  Quote(text);
  return *this;
}

JsonWriter& JsonWriter::Int(int64_t value) {
  Separate();
  AppendFormat(out_, "%lld", static_cast<long long>(value));
  return *this;
}

JsonWriter& JsonWriter::Float(double value) {
  if (!std::isfinite(value)) return Null();
  Separate();
  AppendFormat(out_, "%.9g", value);
  return *this;
}

JsonWriter& JsonWriter::Bool(bool value) {
  Separate();
  out_ += value ? "true" : "false";
  return *this;
}

JsonWriter& JsonWriter::Null() {
  Separate();
  out_ += "null";
  return *this;
}

}  // namespace nonstop
