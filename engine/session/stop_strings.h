// Ends a stream of text at the first stop string. Text is passed on as soon as it can no longer be
// the beginning of one, and never in the middle of a UTF-8 sequence.
// The match that ends first counts; of those that end at the same byte, the longest. So the result
// does not depend on how the stream was cut into pieces.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace nonstop {

class StopStrings {
 public:
  static constexpr size_t kMaxCount = 16;
  static constexpr size_t kMaxBytes = 256;

  // kInvalidArgument: too many, an empty one, one that is too long or no valid UTF-8.
  // No stop strings at all is fine: everything passes through.
  static Result<StopStrings> Create(std::vector<std::string> strings);

  // Appends the text that is now certain to *out; true when a stop string is complete. It and all
  // that follows it are dropped; later calls append nothing and return true.
  // Costs O(stop strings) per byte and holds back fewer than kMaxBytes bytes.
  bool Push(std::string_view piece, std::string* out);
  // The stream has ended: appends what was held back, unless a stop string was found.
  void Finish(std::string* out);
  // Ready for another stream with the same stop strings.
  void Reset();

  bool stopped() const { return matched_ >= 0; }
  // The stop string that was found. Requires stopped().
  const std::string& matched() const;
  // Its first byte in the stream, which is also the length of all text that was passed on.
  uint64_t match_offset() const;

 private:
  struct Pattern {
    std::string text;
    std::vector<uint16_t> fallback;  // [n]: longest proper prefix that ends text[0, n)
    uint16_t matched_bytes = 0;      // longest prefix that ends the stream so far
  };

  static void Advance(Pattern& pattern, char byte);
  size_t HeldBytes() const;

  std::vector<Pattern> patterns_;
  std::string held_;  // the end of the stream that has not been passed on
  uint64_t passed_bytes_ = 0;
  int matched_ = -1;  // index in patterns_
};

}  // namespace nonstop
