// The stages that cut a whole text into words: GPT-2's, Llama 3's, Qwen 2's and Tekken's.
// Each is a loop over alternatives in the order of its regular expression; `at(i)` is empty outside
// the piece, so that look-ahead stops where the piece stops.
#include "text/pre_tokenizer.h"

namespace nonstop {
namespace {

// A piece of the text under the scanner's cursor.
class Scanner {
 public:
  Scanner(CodePoints text, uint32_t begin, uint32_t end, std::vector<uint32_t>* ends)
      : text_(text), position_(begin), end_(end), ends_(ends) {}

  bool AtEnd() const { return position_ == end_; }
  bool Has(uint32_t distance) const { return distance < end_ - position_; }
  ClassifiedCodePoint At(uint32_t distance) const { return text_[position_ + distance]; }
  // Code point `distance` ahead satisfies the predicate (false past the end).
  template <class Predicate>
  bool Is(uint32_t distance, Predicate&& predicate) const {
    return Has(distance) && predicate(At(distance));
  }
  // From `distance` on, how far the predicate holds: the distance of the first that fails.
  template <class Predicate>
  uint32_t RunEnd(uint32_t distance, Predicate&& predicate) const {
    while (Is(distance, predicate)) ++distance;
    return distance;
  }
  bool Take(uint32_t length) {
    position_ += length;
    AppendEnd(position_, ends_);
    return true;
  }

 private:
  CodePoints text_;
  uint32_t position_;
  uint32_t end_;
  std::vector<uint32_t>* ends_;
};

constexpr auto kIsLetter = [](ClassifiedCodePoint c) { return c.IsLetter(); };
constexpr auto kIsNumber = [](ClassifiedCodePoint c) { return c.IsNumber(); };
constexpr auto kIsSign = [](ClassifiedCodePoint c) { return c.IsSign(); };
constexpr auto kIsWhitespace = [](ClassifiedCodePoint c) { return c.IsWhitespace(); };
// [^\r\n\p{L}\p{N}]
constexpr auto kMayLeadLetters = [](ClassifiedCodePoint c) {
  return !c.IsNewline() && !c.IsLetter() && !c.IsNumber();
};

// 's|'t|'re|'ve|'m|'ll|'d
bool TakeContraction(Scanner* scanner, bool ignore_case) {
  const auto letter = [&](uint32_t distance) -> uint32_t {
    if (!scanner->Has(distance)) return 0;
    const uint32_t value = scanner->At(distance).value();
    return ignore_case && value >= 'A' && value <= 'Z' ? value + ('a' - 'A') : value;
  };
  if (!scanner->At(0).Is('\'')) return false;
  const uint32_t first = letter(1);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return scanner->Take(2);
  const uint32_t second = letter(2);
  const bool matches =
      ((first == 'r' || first == 'v') && second == 'e') || (first == 'l' && second == 'l');
  return matches && scanner->Take(3);
}

// ` ?X+`, X being a predicate that a space does not satisfy.
template <class Predicate>
bool TakeSpacedRun(Scanner* scanner, Predicate&& predicate) {
  const uint32_t first = scanner->At(0).Is(' ') ? 1 : 0;
  if (!scanner->Is(first, predicate)) return false;
  return scanner->Take(scanner->RunEnd(first, predicate));
}

// ` ?[^\s\p{L}\p{N}]+[\r\n]*`; with `slash` the tail is `[\r\n/]*`.
bool TakeSignsAndNewlines(Scanner* scanner, bool slash) {
  const uint32_t first = scanner->At(0).Is(' ') ? 1 : 0;
  if (!scanner->Is(first, kIsSign)) return false;
  const uint32_t tail = scanner->RunEnd(first, kIsSign);
  return scanner->Take(scanner->RunEnd(
      tail, [slash](ClassifiedCodePoint c) { return c.IsNewline() || (slash && c.Is('/')); }));
}

// `[^\r\n\p{L}\p{N}]?\p{L}+`
bool TakeLedLetters(Scanner* scanner) {
  const uint32_t first = scanner->Is(0, kMayLeadLetters) ? 1 : 0;
  if (!scanner->Is(first, kIsLetter)) return false;
  return scanner->Take(scanner->RunEnd(first, kIsLetter));
}

// `\s*[\r\n]+`: up to the last newline of a run of white space.
bool TakeThroughNewline(Scanner* scanner) {
  uint32_t length = scanner->RunEnd(0, kIsWhitespace);
  while (length > 0 && !scanner->At(length - 1).IsNewline()) --length;
  return length > 0 && scanner->Take(length);
}

// `\s+(?!\S)|\s+`: white space, but for the last one when a word follows.
bool TakeWhitespace(Scanner* scanner) {
  const uint32_t length = scanner->RunEnd(0, kIsWhitespace);
  if (length == 0) return false;
  return scanner->Take(length > 1 && scanner->Has(length) ? length - 1 : length);
}

// `\p{N}{1,limit}`
bool TakeNumbers(Scanner* scanner, uint32_t limit) {
  if (!scanner->Is(0, kIsNumber)) return false;
  uint32_t length = 1;
  while (length < limit && scanner->Is(length, kIsNumber)) ++length;
  return scanner->Take(length);
}

// Llama 3's expression; Qwen 2's but for the digits in a group.
void SplitLlama3Like(Scanner scanner, uint32_t digit_limit) {
  while (!scanner.AtEnd()) {
    const bool taken = TakeContraction(&scanner, true) || TakeLedLetters(&scanner) ||
                       TakeNumbers(&scanner, digit_limit) ||
                       TakeSignsAndNewlines(&scanner, false) || TakeThroughNewline(&scanner) ||
                       TakeWhitespace(&scanner);
    if (!taken) scanner.Take(1);
  }
}

// Tekken's two letter alternatives. llama.cpp writes upper case as "a letter, but not a-z" and
// lower case as "a letter, but not A-Z", so letters beyond ASCII are both:
//   X?U*W+ | X?U+W*   with X = [^\r\n\p{L}\p{N}], U = (?=\p{L})[^a-z], W = (?=\p{L})[^A-Z]
bool TakeTekkenLetters(Scanner* scanner) {
  const auto upper = [](ClassifiedCodePoint c) {
    return c.IsLetter() && !(c.value() >= 'a' && c.value() <= 'z');
  };
  const auto lower = [](ClassifiedCodePoint c) {
    return c.IsLetter() && !(c.value() >= 'A' && c.value() <= 'Z');
  };
  const uint32_t first = scanner->Is(0, kMayLeadLetters) ? 1 : 0;
  const uint32_t upper_end = scanner->RunEnd(first, upper);
  if (scanner->Is(upper_end, lower)) return scanner->Take(scanner->RunEnd(upper_end, lower));
  if (upper_end == first) return false;
  // U* gives back letters until W+ finds one that is both.
  uint32_t length = upper_end;
  while (length > first && !lower(scanner->At(length - 1))) --length;
  return scanner->Take(length > first ? length : upper_end);
}

}  // namespace

void SplitGpt2(CodePoints text, uint32_t begin, uint32_t end, std::vector<uint32_t>* ends) {
  Scanner scanner(text, begin, end, ends);
  while (!scanner.AtEnd()) {
    const bool taken = TakeContraction(&scanner, false) || TakeSpacedRun(&scanner, kIsLetter) ||
                       TakeSpacedRun(&scanner, kIsNumber) || TakeSpacedRun(&scanner, kIsSign) ||
                       TakeWhitespace(&scanner);
    if (!taken) scanner.Take(1);
  }
}

void SplitLlama3(CodePoints text, uint32_t begin, uint32_t end, std::vector<uint32_t>* ends) {
  SplitLlama3Like(Scanner(text, begin, end, ends), 3);
}

void SplitQwen2(CodePoints text, uint32_t begin, uint32_t end, std::vector<uint32_t>* ends) {
  SplitLlama3Like(Scanner(text, begin, end, ends), 1);
}

void SplitTekken(CodePoints text, uint32_t begin, uint32_t end, std::vector<uint32_t>* ends) {
  Scanner scanner(text, begin, end, ends);
  while (!scanner.AtEnd()) {
    const bool taken = TakeTekkenLetters(&scanner) || TakeNumbers(&scanner, 1) ||
                       TakeSignsAndNewlines(&scanner, true) || TakeThroughNewline(&scanner) ||
                       TakeWhitespace(&scanner);
    if (!taken) scanner.Take(1);
  }
}

}  // namespace nonstop
