#include "text/special_tokens.h"

#include <algorithm>
#include <numeric>
#include <span>

#include "base/sort.h"
#include "text/min_heap.h"

namespace nonstop {
namespace {

constexpr uint8_t kParsed = TokenAttribute::kSpecial | TokenAttribute::kUserDefined;

// isspace of the C locale, which llama.cpp strips by.
bool IsStripped(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// Out of line: sorting would inline it many times.
struct TextLess {
  const Vocabulary& vocabulary;
  [[gnu::noinline]] bool operator()(TokenId a, TokenId b) const {
    return vocabulary.text(a) < vocabulary.text(b);
  }
};

}  // namespace

// One text under search. The heap holds for each position its longest token that is not refused
// yet: (order, begin), the best on top.
struct SpecialTokens::Search {
  const Vocabulary& vocabulary;
  std::string_view text;
  bool parse_special;
  uint64_t step_count = 0;
  MinHeap heap = {};

  bool Counts(TokenId id) const {
    return parse_special || !vocabulary.Has(id, TokenAttribute::kSpecial);
  }
};

SpecialTokens::SpecialTokens(const Vocabulary& vocabulary) {
  for (TokenId id = 0; id < static_cast<TokenId>(vocabulary.size()); ++id) {
    if (vocabulary.Has(id, kParsed)) by_text_.push_back(id);
  }
  const TextLess is_less{vocabulary};
  HeapSort(std::span(by_text_), is_less);
  OrderByLength(vocabulary);
  for (const TokenId id : by_text_) {
    ++first_bytes_[static_cast<uint8_t>(vocabulary.text(id)[0]) + 1u];
  }
  std::partial_sum(first_bytes_.begin(), first_bytes_.end(), first_bytes_.begin());
}

void SpecialTokens::OrderByLength(const Vocabulary& vocabulary) {
  MinHeap ids;
  std::vector<uint32_t> place_of_id(vocabulary.size());
  for (uint32_t place = 0; place < by_text_.size(); ++place) {
    const TokenId id = by_text_[place];
    ids.Push(~static_cast<uint32_t>(vocabulary.text(id).size()), static_cast<uint32_t>(id));
    place_of_id[static_cast<size_t>(id)] = place;
  }
  order_.resize(by_text_.size());
  while (!ids.empty()) {
    const uint32_t place = place_of_id[static_cast<uint32_t>(ids.Pop())];
    order_[place] = static_cast<uint32_t>(by_order_.size());
    by_order_.push_back(place);
  }
}

// Narrows the range of tokens that agree with the text, byte by byte: by_text_ is its own trie.
uint32_t SpecialTokens::LongestAt(Search* search, uint32_t begin, size_t limit) const {
  const Vocabulary& vocabulary = search->vocabulary;
  const std::string_view rest = search->text.substr(begin, limit);
  if (rest.empty()) return kNoPlace;
  uint32_t low = first_bytes_[static_cast<uint8_t>(rest[0])];
  uint32_t high = first_bytes_[static_cast<uint8_t>(rest[0]) + 1u];
  uint32_t longest = kNoPlace;
  for (size_t depth = 1; low < high; ++depth) {
    ++search->step_count;
    if (vocabulary.text(by_text_[low]).size() == depth) {
      if (search->Counts(by_text_[low])) longest = low;
      ++low;
    }
    if (depth == rest.size()) break;
    const auto byte_at = [&](TokenId id) {
      return static_cast<uint8_t>(vocabulary.text(id)[depth]);
    };
    const auto next = static_cast<uint8_t>(rest[depth]);
    const auto tokens = by_text_.begin();
    const auto narrowed_low = std::partition_point(tokens + low, tokens + high,
                                                   [&](TokenId id) { return byte_at(id) < next; });
    const auto narrowed_high = std::partition_point(
        narrowed_low, tokens + high, [&](TokenId id) { return byte_at(id) == next; });
    low = static_cast<uint32_t>(narrowed_low - tokens);
    high = static_cast<uint32_t>(narrowed_high - tokens);
  }
  return longest;
}

void SpecialTokens::QueueLongestTokens(Search* search) const {
  if (by_text_.empty()) return;
  for (uint32_t begin = 0; begin < search->text.size(); ++begin) {
    const uint32_t place = LongestAt(search, begin, search->text.size());
    if (place != kNoPlace) search->heap.Push(order_[place], begin);
  }
}

// Whatever was taken before a candidate is at least as long, so the candidate is free exactly when
// both its ends are.
std::vector<SpecialTokens::Claim> SpecialTokens::TakeInOrder(Search* search) const {
  std::vector<Claim> claims;
  if (search->heap.empty()) return claims;
  const auto text_end = static_cast<uint32_t>(search->text.size());
  std::vector<bool> taken(text_end);
  while (!search->heap.empty()) {
    ++search->step_count;
    const uint64_t key = search->heap.Pop();
    const auto begin = static_cast<uint32_t>(key);
    if (taken[begin]) continue;
    const TokenId id = by_text_[by_order_[static_cast<size_t>(key >> 32)]];
    const auto size = static_cast<uint32_t>(search->vocabulary.text(id).size());
    if (taken[begin + size - 1]) {  // something shorter may fit
      const uint32_t place = LongestAt(search, begin, size - 1);
      if (place != kNoPlace) search->heap.Push(order_[place], begin);
      continue;
    }
    Claim claim{begin, begin + size, begin + size, id};
    const bool strips = search->vocabulary.Has(id, TokenAttribute::kStripRight);
    while (strips && claim.right < text_end && !taken[claim.right] &&
           IsStripped(search->text[claim.right])) {
      ++claim.right;
    }
    std::fill(taken.begin() + begin, taken.begin() + claim.right, true);
    claims.push_back(claim);
  }
  return claims;
}

std::vector<TextFragment> SpecialTokens::Partition(const Vocabulary& vocabulary,
                                                   std::string_view text, bool parse_special,
                                                   uint64_t* step_count) const {
  Search search{vocabulary, text, parse_special};
  QueueLongestTokens(&search);
  const auto text_end = static_cast<uint32_t>(text.size());
  std::vector<TextFragment> fragments;
  uint32_t done = 0;
  const std::vector<Claim> claims = TakeInOrder(&search);
  MinHeap by_begin;
  for (uint32_t i = 0; i < claims.size(); ++i) by_begin.Push(claims[i].begin, i);
  while (!by_begin.empty()) {
    const Claim& claim = claims[static_cast<uint32_t>(by_begin.Pop())];
    if (claim.begin > done) fragments.push_back({kNoToken, done, claim.begin});
    fragments.push_back({claim.id, claim.begin, claim.end});
    done = claim.right;
  }
  if (done < text_end) fragments.push_back({kNoToken, done, text_end});
  if (step_count) *step_count += search.step_count;
  return fragments;
}

}  // namespace nonstop
