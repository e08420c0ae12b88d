// Any text, any stop strings, any cutting: equal to a plain search over the whole text, with text
// passed on as early as allowed.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "session/stop_strings.h"

namespace {

using nonstop::StopStrings;

struct Found {
  size_t begin = std::string::npos;
  size_t end = std::string::npos;
};

// The definition: the earliest end, then the longest.
Found Search(const std::string& text, const std::vector<std::string>& strings) {
  Found best;
  for (const std::string& string : strings) {
    const size_t begin = text.find(string);
    if (begin == std::string::npos) continue;
    const size_t end = begin + string.size();
    if (end < best.end || (end == best.end && begin < best.begin)) best = {begin, end};
  }
  return best;
}

// True if some suffix of `text` longer than `held` bytes begins a stop string.
bool HeldTooLittle(std::string_view text, size_t held, const std::vector<std::string>& strings) {
  for (const std::string& string : strings) {
    for (size_t n = held + 1; n < string.size() && n <= text.size(); ++n) {
      if (text.ends_with(std::string_view(string).substr(0, n))) return true;
    }
  }
  return false;
}

std::string TakeString(const uint8_t*& data, size_t& size, size_t limit) {
  const size_t length = size == 0 ? 0 : std::min<size_t>(*data % limit, size - 1);
  std::string out(reinterpret_cast<const char*>(data + (size > 0)), length);
  data += length + (size > 0);
  size -= length + (size > 0);
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string cuts = TakeString(data, size, 24);
  std::vector<std::string> strings;
  const std::string count = TakeString(data, size, 2);
  for (size_t i = 0; i < (count.empty() ? 1 : count[0] & 3u); ++i) {
    strings.push_back(TakeString(data, size, 9));
  }
  auto created = StopStrings::Create(strings);
  if (!created.ok()) return 0;
  StopStrings& stops = *created;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const Found found = Search(text, strings);

  std::string out;
  size_t at = 0;
  for (size_t i = 0; at < text.size(); ++i) {
    const size_t wanted = i < cuts.size() ? static_cast<uint8_t>(cuts[i]) % 16 : text.size();
    const std::string piece = text.substr(at, wanted);
    at += piece.size();
    const bool stopped = stops.Push(piece, &out);
    CHECK(stopped == (found.end <= at));
    CHECK(text.starts_with(out));
    if (!stopped)
      CHECK(!HeldTooLittle(std::string_view(text).substr(0, at), at - out.size(), strings));
  }
  stops.Finish(&out);
  CHECK(out == text.substr(0, found.begin));
  CHECK(stops.stopped() == (found.begin != std::string::npos));
  if (stops.stopped()) {
    CHECK(stops.match_offset() == found.begin);
    CHECK(stops.matched() == text.substr(found.begin, found.end - found.begin));
  }
  return 0;
}
