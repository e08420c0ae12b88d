// For tests only: reads the JSON of tests/data. Wrong JSON or a wrong type is a fault of the test's
// data and stops it. Numbers keep their text, so that floats are read to the last bit.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"

namespace nonstop {

class TestJson {
 public:
  enum class Kind { kNull, kBool, kNumber, kString, kArray, kObject };

  static TestJson Parse(std::string_view text);

  Kind kind() const { return kind_; }
  bool is_null() const { return kind_ == Kind::kNull; }
  bool AsBool() const {
    CHECK(kind_ == Kind::kBool);
    return text_ == "true";
  }
  float AsFloat() const { return std::strtof(NumberText(), nullptr); }
  double AsDouble() const { return std::strtod(NumberText(), nullptr); }
  int64_t AsInt() const { return std::strtoll(NumberText(), nullptr, 10); }
  const std::string& AsString() const {
    CHECK(kind_ == Kind::kString);
    return text_;
  }

  // Of arrays and objects (an object's values in the file's order).
  size_t size() const { return items_.size(); }
  const TestJson& operator[](size_t index) const {
    CHECK(index < items_.size());
    return items_[index];
  }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }
  const std::string& KeyAt(size_t index) const {
    CHECK(index < keys_.size());
    return keys_[index];
  }

  bool Has(std::string_view key) const { return Find(key) != nullptr; }
  const TestJson& operator[](std::string_view key) const {
    const TestJson* value = Find(key);
    CHECK(value != nullptr);
    return *value;
  }
  const TestJson& operator[](const char* key) const { return (*this)[std::string_view(key)]; }

 private:
  struct Reader;

  const TestJson* Find(std::string_view key) const {
    for (size_t i = 0; i < keys_.size(); ++i) {
      if (keys_[i] == key) return &items_[i];
    }
    return nullptr;
  }
  const char* NumberText() const {
    CHECK(kind_ == Kind::kNumber);
    return text_.c_str();
  }

  Kind kind_ = Kind::kNull;
  std::string text_;
  std::vector<TestJson> items_;
  std::vector<std::string> keys_;
};

struct TestJson::Reader {
  std::string_view text;

  void SkipSpace() {
    while (!text.empty() && std::string_view(" \t\r\n").contains(text.front())) Next();
  }
  char Next() {
    CHECK(!text.empty());
    const char next = text.front();
    text.remove_prefix(1);
    return next;
  }
  bool Accept(std::string_view token) {
    SkipSpace();
    if (!text.starts_with(token)) return false;
    text.remove_prefix(token.size());
    return true;
  }

  TestJson ReadValue() {
    TestJson value;
    if (Accept("{")) {
      ReadMembers(value);
    } else if (Accept("[")) {
      ReadItems(value);
    } else if (Accept("\"")) {
      value.kind_ = Kind::kString;
      value.text_ = ReadString();
    } else if (Accept("null")) {
    } else if (text.starts_with("true") || text.starts_with("false")) {
      value.kind_ = Kind::kBool;
      value.text_ = Accept("true") ? "true" : "false";
      if (value.text_ == "false") Accept("false");
    } else {
      value.kind_ = Kind::kNumber;
      const size_t size = std::min(text.find_first_not_of("+-.0123456789eE"), text.size());
      CHECK(size != 0);
      value.text_ = text.substr(0, size);
      text.remove_prefix(size);
    }
    return value;
  }

  void ReadMembers(TestJson& value) {
    value.kind_ = Kind::kObject;
    if (Accept("}")) return;
    do {
      CHECK(Accept("\""));
      value.keys_.push_back(ReadString());
      CHECK(Accept(":"));
      value.items_.push_back(ReadValue());
    } while (Accept(","));
    CHECK(Accept("}"));
  }

  void ReadItems(TestJson& value) {
    value.kind_ = Kind::kArray;
    if (Accept("]")) return;
    do {
      value.items_.push_back(ReadValue());
    } while (Accept(","));
    CHECK(Accept("]"));
  }

  std::string ReadString() {
    std::string out;
    for (char c = Next(); c != '"'; c = Next()) {
      if (c == '\\') {
        AppendEscape(out);
      } else {
        out += c;
      }
    }
    return out;
  }

  uint32_t ReadHex4() {
    CHECK(text.size() >= 4);
    const std::string digits(text.substr(0, 4));
    text.remove_prefix(4);
    return static_cast<uint32_t>(std::strtoul(digits.c_str(), nullptr, 16));
  }

  void AppendEscape(std::string& out) {
    constexpr std::string_view kNames = "\"\\/bfnrt";
    constexpr std::string_view kBytes = "\"\\/\b\f\n\r\t";
    const char name = Next();
    if (name != 'u') {
      CHECK(kNames.contains(name));
      out += kBytes[kNames.find(name)];
      return;
    }
    uint32_t code_point = ReadHex4();
    if (code_point >= 0xd800 && code_point < 0xdc00 && text.starts_with("\\u")) {
      text.remove_prefix(2);
      code_point = 0x10000 + ((code_point - 0xd800) << 10) + (ReadHex4() - 0xdc00);
    }
    AppendUtf8(out, code_point);
  }

  static void AppendUtf8(std::string& out, uint32_t code_point) {
    if (code_point < 0x80) {
      out += static_cast<char>(code_point);
      return;
    }
    const int tail_count = code_point < 0x800 ? 1 : code_point < 0x10000 ? 2 : 3;
    constexpr uint8_t kLeads[] = {0, 0xc0, 0xe0, 0xf0};
    out += static_cast<char>(kLeads[tail_count] | code_point >> (6 * tail_count));
    for (int i = tail_count - 1; i >= 0; --i) {
      out += static_cast<char>(0x80 | (code_point >> (6 * i) & 0x3f));
    }
  }
};

inline TestJson TestJson::Parse(std::string_view text) {
  Reader reader{text};
  TestJson value = reader.ReadValue();
  reader.SkipSpace();
  CHECK(reader.text.empty());
  return value;
}

}  // namespace nonstop
