// Writes JSON text: for what a host reads once (model facts, info), not for a stream of tokens.
// Strings become valid UTF-8 (bad bytes as U+FFFD); numbers that are not finite become null.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace nonstop {

class JsonWriter {
 public:
  JsonWriter& BeginObject() { return Open('{'); }
  JsonWriter& EndObject() { return Close('}'); }
  JsonWriter& BeginArray() { return Open('['); }
  JsonWriter& EndArray() { return Close(']'); }
  JsonWriter& Key(std::string_view key);
  JsonWriter& String(std::string_view text);
  JsonWriter& Int(int64_t value);
  JsonWriter& Float(double value);
  JsonWriter& Bool(bool value);
  JsonWriter& Null();

  std::string Take() { return std::move(out_); }

 private:
  JsonWriter& Open(char bracket);
  JsonWriter& Close(char bracket);
  void Separate();
  void Quote(std::string_view text);

  std::string out_;
  bool needs_comma_ = false;
};

}  // namespace nonstop
