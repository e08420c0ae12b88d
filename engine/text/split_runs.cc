// The stages that isolate runs of one kind and leave what lies between them as it is.
// A stage is a regular expression without alternatives, searched from left to right.
#include <algorithm>
#include <iterator>

#include "text/pre_tokenizer.h"

namespace nonstop {
namespace {

struct Range {
  uint32_t first;
  uint32_t last;
};

// DeepSeek's own list of cased letters, from its tokenizer.json.
constexpr Range kDeepSeekLetters[] = {
    {0x41, 0x5a},       {0x61, 0x7a},       {0xb5, 0xb5},       {0xc0, 0xd6},
    {0xd8, 0xf6},       {0xf8, 0x1ba},      {0x1bc, 0x1bf},     {0x1c4, 0x293},
    {0x295, 0x2af},     {0x370, 0x373},     {0x376, 0x377},     {0x37b, 0x37d},
    {0x37f, 0x37f},     {0x386, 0x386},     {0x388, 0x38a},     {0x38c, 0x38c},
    {0x38e, 0x3a1},     {0x3a3, 0x3f5},     {0x3f7, 0x481},     {0x48a, 0x52f},
    {0x531, 0x556},     {0x10a0, 0x10c5},   {0x13a0, 0x13f5},   {0x13f8, 0x13fd},
    {0x1c90, 0x1cba},   {0x1cbd, 0x1cbf},   {0x1d00, 0x1d2b},   {0x1d6b, 0x1d77},
    {0x1d79, 0x1d9a},   {0x1e00, 0x1f15},   {0x1f18, 0x1f1d},   {0x1f20, 0x1f45},
    {0x1f48, 0x1f4d},   {0x1f50, 0x1f57},   {0x1f59, 0x1f59},   {0x1f5b, 0x1f5b},
    {0x1f5d, 0x1f5d},   {0x1f5f, 0x1f7d},   {0x1f80, 0x1fb4},   {0x1fb6, 0x1fbc},
    {0x1fbe, 0x1fbe},   {0x1fc2, 0x1fc4},   {0x1fc6, 0x1fcc},   {0x1fd0, 0x1fd3},
    {0x1fd6, 0x1fdb},   {0x1fe0, 0x1fec},   {0x1ff2, 0x1ff4},   {0x1ff6, 0x1ffc},
    {0x2102, 0x2102},   {0x2107, 0x2107},   {0x210a, 0x2113},   {0x2115, 0x2115},
    {0x2119, 0x211d},   {0x2124, 0x2124},   {0x2126, 0x2126},   {0x2128, 0x2128},
    {0x212a, 0x212d},   {0x212f, 0x2134},   {0x2139, 0x2139},   {0x213c, 0x213f},
    {0x2145, 0x2149},   {0x214e, 0x214e},   {0x2183, 0x2184},   {0x2c00, 0x2c7b},
    {0x2c7e, 0x2ce4},   {0x2ceb, 0x2cee},   {0x2cf2, 0x2cf3},   {0xa640, 0xa66d},
    {0xa680, 0xa69b},   {0xa722, 0xa76f},   {0xa771, 0xa787},   {0xa78b, 0xa78e},
    {0xab70, 0xabbf},   {0xfb00, 0xfb06},   {0xfb13, 0xfb17},   {0xff21, 0xff3a},
    {0xff41, 0xff5a},   {0x10400, 0x1044f}, {0x104b0, 0x104d3}, {0x104d8, 0x104fb},
    {0x10c80, 0x10cb2}, {0x10cc0, 0x10cf2}, {0x118a0, 0x118df}, {0x1e900, 0x1e943},
};

// As llama.cpp has it, ':' to '~' holds the Latin letters too.
constexpr Range kDeepSeekSigns[] = {
    {'!', '/'}, {':', '~'}, {0x2018, 0x201f}, {0x3000, 0x3002}, {0xff01, 0xff0f}, {0xff1a, 0xff5e},
};

constexpr Range kDeepSeekCjk[] = {{0x800, 0x9fa5}, {0xac00, 0xd7ff}};

template <size_t kCount>
bool InRanges(const Range (&ranges)[kCount], ClassifiedCodePoint c) {
  // llama.cpp hides white space beyond ASCII from these expressions.
  if (c.value() >= 0x80 && c.IsWhitespace()) return false;
  const auto range = std::lower_bound(
      std::begin(ranges), std::end(ranges), c.value(),
      [](const Range& candidate, uint32_t value) { return candidate.last < value; });
  return range != std::end(ranges) && range->first <= c.value();
}

// `match_length(i)` is the length of the match that starts at i, or 0. Isolates the matches.
template <class MatchLength>
void SplitMatches(uint32_t begin, uint32_t end, std::vector<uint32_t>* ends,
                  MatchLength&& match_length) {
  uint32_t done = begin;
  for (uint32_t i = begin; i < end;) {
    const uint32_t length = match_length(i);
    if (length == 0) {
      ++i;
      continue;
    }
    if (i > done) AppendEnd(i, ends);
    done = i + length;
    AppendEnd(done, ends);
    i = done;
  }
  if (done < end) AppendEnd(end, ends);
}

// `X+`, or `\s?X+` with `spaced`.
template <class Predicate>
void SplitRuns(CodePoints text, uint32_t begin, uint32_t end, std::vector<uint32_t>* ends,
               bool spaced, Predicate&& predicate) {
  SplitMatches(begin, end, ends, [&](uint32_t i) -> uint32_t {
    uint32_t run = i;
    if (spaced && text[i].IsWhitespace() && i + 1 < end && predicate(text[i + 1])) ++run;
    const uint32_t run_begin = run;
    while (run < end && predicate(text[run])) ++run;
    return run == run_begin ? 0 : run - i;
  });
}

constexpr auto kIsNumber = [](ClassifiedCodePoint c) { return c.IsNumber(); };

}  // namespace

// `\p{N}`
void SplitEachNumber(CodePoints text, uint32_t begin, uint32_t end, std::vector<uint32_t>* ends) {
  SplitMatches(begin, end, ends, [&](uint32_t i) { return text[i].IsNumber() ? 1u : 0u; });
}

// `\p{N}+`
void SplitNumberRuns(CodePoints text, uint32_t begin, uint32_t end, std::vector<uint32_t>* ends) {
  SplitRuns(text, begin, end, ends, false, kIsNumber);
}

// `[0-9][0-9][0-9]`
void SplitThreeDigits(CodePoints text, uint32_t begin, uint32_t end, std::vector<uint32_t>* ends) {
  const auto is_digit = [&](uint32_t i) {
    return text[i].value() >= '0' && text[i].value() <= '9';
  };
  SplitMatches(begin, end, ends, [&](uint32_t i) {
    return end - i >= 3 && is_digit(i) && is_digit(i + 1) && is_digit(i + 2) ? 3u : 0u;
  });
}

// `[\p{P}\$\+<=>\^~\|]+`
void SplitSigns(CodePoints text, uint32_t begin, uint32_t end, std::vector<uint32_t>* ends) {
  SplitRuns(text, begin, end, ends, false, [](ClassifiedCodePoint c) {
    return c.IsPunctuation() ||
           (c.value() < 0x80 &&
            std::string_view("$+<=>^~|").contains(static_cast<char>(c.value())));
  });
}

// `[\r\n]`
void SplitEachNewline(CodePoints text, uint32_t begin, uint32_t end, std::vector<uint32_t>* ends) {
  SplitMatches(begin, end, ends, [&](uint32_t i) { return text[i].IsNewline() ? 1u : 0u; });
}

// `\s+$`
void SplitTrailingSpace(CodePoints text, uint32_t begin, uint32_t end,
                        std::vector<uint32_t>* ends) {
  uint32_t trailing = end;
  while (trailing > begin && text[trailing - 1].IsWhitespace()) --trailing;
  if (trailing > begin) AppendEnd(trailing, ends);
  if (trailing < end) AppendEnd(end, ends);
}

void SplitDeepSeekLetters(CodePoints text, uint32_t begin, uint32_t end,
                          std::vector<uint32_t>* ends) {
  SplitRuns(text, begin, end, ends, true,
            [](ClassifiedCodePoint c) { return InRanges(kDeepSeekLetters, c); });
}

void SplitDeepSeekSigns(CodePoints text, uint32_t begin, uint32_t end,
                        std::vector<uint32_t>* ends) {
  SplitRuns(text, begin, end, ends, true,
            [](ClassifiedCodePoint c) { return InRanges(kDeepSeekSigns, c); });
}

void SplitDeepSeekCjk(CodePoints text, uint32_t begin, uint32_t end, std::vector<uint32_t>* ends) {
  SplitRuns(text, begin, end, ends, false,
            [](ClassifiedCodePoint c) { return InRanges(kDeepSeekCjk, c); });
}

}  // namespace nonstop
