// Knuth, Morris and Pratt's automaton for each stop string, all driven by the same bytes. A state
// is the length of the longest prefix that ends the stream, so the largest state is what to hold
// back.
#include "session/stop_strings.h"

#include <algorithm>

#include "base/utf8.h"

namespace nonstop {
namespace {

// By the first byte alone: how long the sequence will be that it begins.
size_t SequenceLength(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead < 0xE0) return 2;
  if (lead >= 0xE0 && lead < 0xF0) return 3;
  if (lead >= 0xF0 && lead < 0xF5) return 4;
  return 0;  // a continuation byte or one that UTF-8 never has
}

bool IsContinuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const size_t length = Utf8SequenceLength(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

// Bytes at the end that begin a UTF-8 sequence and do not complete it: 0 to 3.
size_t IncompleteTail(std::string_view text) {
  for (size_t back = 1; back <= std::min<size_t>(3, text.size()); ++back) {
    const char byte = text[text.size() - back];
    if (IsContinuation(byte)) continue;
    return SequenceLength(static_cast<unsigned char>(byte)) > back ? back : 0;
  }
  return 0;
}

std::vector<uint16_t> MakeFallback(std::string_view text) {
  std::vector<uint16_t> fallback(text.size() + 1, 0);
  uint16_t length = 0;
  for (size_t i = 1; i < text.size(); ++i) {
    while (length > 0 && text[i] != text[length]) length = fallback[length];
    if (text[i] == text[length]) ++length;
    fallback[i + 1] = length;
  }
  return fallback;
}

Status CheckStopString(const std::string& text, size_t index) {
  const int number = static_cast<int>(index + 1);
  if (text.empty()) {
    return MakeError(ErrorCode::kInvalidArgument, "Stop string number (%d) is empty.", number);
  }
  if (text.size() > StopStrings::kMaxBytes) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "Stop string number (%d) has (%llu) bytes, more than the limit (%d).", number,
                     static_cast<unsigned long long>(text.size()),
                     static_cast<int>(StopStrings::kMaxBytes));
  }
  if (!IsUtf8(text)) {
    return MakeError(ErrorCode::kInvalidArgument, "Stop string number (%d) is not valid UTF-8.",
                     number);
  }
  return {};
}

}  // namespace

Result<StopStrings> StopStrings::Create(std::vector<std::string> strings) {
  if (strings.size() > kMaxCount) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "The number of stop strings (%llu) is over the limit (%d).",
                     static_cast<unsigned long long>(strings.size()), static_cast<int>(kMaxCount));
  }
  StopStrings result;
  for (size_t i = 0; i < strings.size(); ++i) {
    TRY(CheckStopString(strings[i], i));
    std::vector<uint16_t> fallback = MakeFallback(strings[i]);
    result.patterns_.push_back({std::move(strings[i]), std::move(fallback), 0});
  }
  return result;
}

void StopStrings::Advance(Pattern& pattern, char byte) {
  uint16_t& length = pattern.matched_bytes;
  while (length > 0 && pattern.text[length] != byte) length = pattern.fallback[length];
  if (pattern.text[length] == byte) ++length;
}

size_t StopStrings::HeldBytes() const {
  size_t held = IncompleteTail(held_);
  for (const Pattern& pattern : patterns_) held = std::max<size_t>(held, pattern.matched_bytes);
  return held;
}

bool StopStrings::Push(std::string_view piece, std::string* out) {
  if (stopped()) return true;
  for (const char byte : piece) {
    held_ += byte;
    for (size_t i = 0; i < patterns_.size(); ++i) {
      Advance(patterns_[i], byte);
      if (patterns_[i].matched_bytes < patterns_[i].text.size()) continue;
      const bool longest = !stopped() || patterns_[i].text.size() > matched().size();
      if (longest) matched_ = static_cast<int>(i);
    }
    if (stopped()) break;
  }
  const size_t kept = held_.size() - (stopped() ? matched().size() : HeldBytes());
  out->append(held_, 0, kept);
  held_.erase(0, kept);
  passed_bytes_ += kept;
  if (stopped()) held_.clear();
  return stopped();
}

void StopStrings::Finish(std::string* out) {
  *out += held_;
  passed_bytes_ += held_.size();
  held_.clear();
  for (Pattern& pattern : patterns_) pattern.matched_bytes = 0;
}

void StopStrings::Reset() {
  std::string dropped;
  Finish(&dropped);
  passed_bytes_ = 0;
  matched_ = -1;
}

const std::string& StopStrings::matched() const {
  CHECK(stopped());
  return patterns_[static_cast<size_t>(matched_)].text;
}

uint64_t StopStrings::match_offset() const {
  CHECK(stopped());
  return passed_bytes_;
}

}  // namespace nonstop
