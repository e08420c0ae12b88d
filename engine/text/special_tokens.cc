#include "text/special_tokens.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace nonstop {
namespace {

constexpr uint8_t kParsed = TokenAttribute::kSpecial | TokenAttribute::kUserDefined;

// isspace of the C locale, which llama.cpp strips by.
bool IsStripped(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

}  // namespace

// One text under search. The heap holds for each position its longest token that is not refused
// yet, the best on top: order << 32 | begin.
struct SpecialTokens::Search {
  const Vocabulary& vocabulary;
  std::string_view text;
  bool parse_special;
  uint64_t step_count = 0;
  std::vector<uint64_t> heap = {};

  bool Counts(TokenId id) const {
    return parse_special || !vocabulary.Has(id, TokenAttribute::kSpecial);
  }
  void Push(uint32_t order, uint32_t begin) {
    heap.push_back(static_cast<uint64_t>(order) << 32 | begin);
    std::push_heap(heap.begin(), heap.end(), std::greater<>());
  }
  uint64_t Pop() {
    ++step_count;
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const uint64_t key = heap.back();
    heap.pop_back();
    return key;
  }
};

SpecialTokens::SpecialTokens(const Vocabulary& vocabulary) {
  for (TokenId id = 0; id < static_cast<TokenId>(vocabulary.size()); ++id) {
    if (vocabulary.Has(id, kParsed)) by_text_.push_back(id);
  }
  std::sort(by_text_.begin(), by_text_.end(),
            [&](TokenId a, TokenId b) { return vocabulary.text(a) < vocabulary.text(b); });
  by_order_.resize(by_text_.size());
  std::iota(by_order_.begin(), by_order_.end(), 0u);
  std::sort(by_order_.begin(), by_order_.end(), [&](uint32_t a, uint32_t b) {
    const size_t length_a = vocabulary.text(by_text_[a]).size();
    const size_t length_b = vocabulary.text(by_text_[b]).size();
    return length_a != length_b ? length_a > length_b : by_text_[a] < by_text_[b];
  });
  order_.resize(by_text_.size());
  for (uint32_t rank = 0; rank < by_order_.size(); ++rank) order_[by_order_[rank]] = rank;
  for (const TokenId id : by_text_) {
    ++first_bytes_[static_cast<uint8_t>(vocabulary.text(id)[0]) + 1u];
  }
  std::partial_sum(first_bytes_.begin(), first_bytes_.end(), first_bytes_.begin());
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
    if (place != kNoPlace) search->Push(order_[place], begin);
  }
}

// Whatever was taken before a candidate is at least as long, so the candidate is free exactly when
// both its ends are.
std::vector<SpecialTokens::Claim> SpecialTokens::TakeInOrder(Search* search) const {
  const auto text_end = static_cast<uint32_t>(search->text.size());
  std::vector<bool> taken(text_end);
  std::vector<Claim> claims;
  while (!search->heap.empty()) {
    const uint64_t key = search->Pop();
    const auto begin = static_cast<uint32_t>(key);
    if (taken[begin]) continue;
    const TokenId id = by_text_[by_order_[static_cast<size_t>(key >> 32)]];
    const auto size = static_cast<uint32_t>(search->vocabulary.text(id).size());
    if (taken[begin + size - 1]) {  // something shorter may fit
      const uint32_t place = LongestAt(search, begin, size - 1);
      if (place != kNoPlace) search->Push(order_[place], begin);
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
  std::sort(claims.begin(), claims.end(),
            [](const Claim& a, const Claim& b) { return a.begin < b.begin; });
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
  if (!search.heap.empty()) {
    for (const Claim& claim : TakeInOrder(&search)) {
      if (claim.begin > done) fragments.push_back({kNoToken, done, claim.begin});
      fragments.push_back({claim.id, claim.begin, claim.end});
      done = claim.right;
    }
  }
  if (done < text_end) fragments.push_back({kNoToken, done, text_end});
  if (step_count) *step_count += search.step_count;
  return fragments;
}

}  // namespace nonstop
