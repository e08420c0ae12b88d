// Stop strings: what is passed on, what is held back, where the match is, and that the cutting of
// the stream into pieces does not matter.
#include "session/stop_strings.h"

#include <gtest/gtest.h>

namespace nonstop {
namespace {

StopStrings Make(std::vector<std::string> strings) {
  auto result = StopStrings::Create(std::move(strings));
  CHECK(result.ok());
  return std::move(result).value();
}

// The text after each push, joined by '|'; "#" marks the stop.
std::string Trace(StopStrings stops, const std::vector<std::string>& pieces) {
  std::string trace;
  for (const std::string& piece : pieces) {
    std::string out;
    const bool stopped = stops.Push(piece, &out);
    trace += out + (stopped ? "#" : "|");
  }
  stops.Finish(&trace);
  return trace;
}

TEST(StopStrings, HoldsBackWhatMayBecomeAStopStringAndNoMore) {
  EXPECT_EQ(Trace(Make({"</s>"}), {"ab<", "/", "s", ">", "tail"}), "ab|||##");
  EXPECT_EQ(Trace(Make({"</s>"}), {"ab<", "/", "x>"}), "ab||</x>|");
  EXPECT_EQ(Trace(Make({"</s>"}), {"ab<<", "/s>"}), "ab<|#");
  EXPECT_EQ(Trace(Make({"</s>"}), {"ab</s"}), "ab|</s");
  EXPECT_EQ(Trace(Make({}), {"ab", "</s>"}), "ab|</s>|");
}

TEST(StopStrings, FallsBackToAShorterPrefixInsideAPartialMatch) {
  EXPECT_EQ(Trace(Make({"aab"}), {"a", "a", "a", "a", "b", "c"}), "||a|a|##");
  EXPECT_EQ(Trace(Make({"abcabd"}), {"abcab", "cab", "d"}), "|abc|#");
  EXPECT_EQ(Trace(Make({"abcx", "bd"}), {"ab", "d"}), "|a#");
}

TEST(StopStrings, FirstToEndCountsAndThenTheLongest) {
  StopStrings stops = Make({"b", "abc"});
  std::string out;
  EXPECT_TRUE(stops.Push("xabc", &out));
  EXPECT_EQ(out, "xa");
  EXPECT_EQ(stops.matched(), "b");
  EXPECT_EQ(stops.match_offset(), 2u);
  StopStrings same_end = Make({"c", "abc", "bc"});
  out.clear();
  EXPECT_TRUE(same_end.Push("xxab", &out) || same_end.Push("cab", &out));
  EXPECT_EQ(out, "xx");
  EXPECT_EQ(same_end.matched(), "abc");
  EXPECT_EQ(same_end.match_offset(), 2u);
}

TEST(StopStrings, NeverPassesOnHalfAUtf8Sequence) {
  const std::string euro = "\xE2\x82\xAC";
  StopStrings stops = Make({euro + "!"});
  std::string out;
  EXPECT_FALSE(stops.Push("a\xE2\x82", &out));
  EXPECT_EQ(out, "a");
  EXPECT_FALSE(stops.Push("\xAC", &out));
  EXPECT_EQ(out, "a");
  EXPECT_FALSE(stops.Push("?", &out));
  EXPECT_EQ(out, "a" + euro + "?");
  // Another character with the same first bytes; and an emoji byte by byte, with no stop string.
  EXPECT_EQ(Trace(Make({euro}), {"\xE2\x82", "\xAB", "x"}), "|\xE2\x82\xAB|x|");
  EXPECT_EQ(Trace(Make({}), {"\xF0", "\x9F", "\x98", "\x80"}), "|||\xF0\x9F\x98\x80|");
  // Bytes that are no UTF-8 pass through.
  EXPECT_EQ(Trace(Make({"z"}), {"\x80\x80\x80\x80", "\xFF", "q"}), "\x80\x80\x80\x80|\xFF|q|");
}

TEST(StopStrings, EveryCuttingGivesTheSameText) {
  const std::string text = "one tw\xC3\xB6 abab ababac three";
  for (const auto& strings : std::vector<std::vector<std::string>>{
           {"ababac"}, {"babac", "zzz"}, {"three"}, {"\xC3\xB6 a"}, {"none"}, {"e"}}) {
    StopStrings whole = Make(strings);
    std::string expected;
    whole.Push(text, &expected);
    whole.Finish(&expected);
    const size_t at = text.find(strings[0]);
    EXPECT_EQ(expected, text.substr(0, at));
    for (size_t first = 0; first <= text.size(); ++first) {
      for (size_t second = first; second <= text.size(); ++second) {
        StopStrings stops = Make(strings);
        std::string out;
        stops.Push(text.substr(0, first), &out);
        stops.Push(text.substr(first, second - first), &out);
        stops.Push(text.substr(second), &out);
        stops.Finish(&out);
        ASSERT_EQ(out, expected) << first << " " << second;
        ASSERT_EQ(stops.stopped(), at != std::string::npos);
        if (stops.stopped()) ASSERT_EQ(stops.match_offset(), at);
      }
    }
  }
}

TEST(StopStrings, CanBeUsedForAnotherStream) {
  StopStrings stops = Make({"ab"});
  std::string out;
  stops.Push("xa", &out);
  stops.Reset();
  EXPECT_FALSE(stops.Push("b", &out));
  EXPECT_EQ(out, "xb");
  EXPECT_TRUE(stops.Push("ab", &out));
  stops.Reset();
  EXPECT_FALSE(stops.stopped());
  out.clear();
  EXPECT_TRUE(stops.Push("yab", &out));
  EXPECT_EQ(stops.match_offset(), 1u);
}

TEST(StopStrings, RefusesWhatItCannotMatch) {
  const auto message_of = [](std::vector<std::string> strings) {
    const auto result = StopStrings::Create(std::move(strings));
    return result.ok() ? std::string() : result.error().message;
  };
  EXPECT_EQ(message_of({"a", ""}), "Stop string number (2) is empty.");
  EXPECT_EQ(message_of({std::string(257, 'a')}),
            "Stop string number (1) has (257) bytes, more than the limit (256).");
  EXPECT_EQ(message_of({std::string(256, 'a')}), "");
  EXPECT_EQ(message_of(std::vector<std::string>(17, "a")),
            "The number of stop strings (17) is over the limit (16).");
  EXPECT_EQ(message_of(std::vector<std::string>(16, "a")), "");
  for (const char* bad : {"a\x80", "\xE2\x82", "\xFF", "\xC0\x80"}) {
    EXPECT_EQ(message_of({bad}), "Stop string number (1) is not valid UTF-8.") << bad;
  }
}

}  // namespace
}  // namespace nonstop
