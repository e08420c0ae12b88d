// Finds special and added tokens in a text before anything else is done to it.
// The result is that of llama.cpp's tokenizer_st_partition (the longest token first, each from left
// to right), at a cost that does not grow with the number of such tokens: Gemma has 6,400.
// Tokens of equal length that overlap in the text go by id (llama.cpp leaves that open).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/vocabulary.h"

namespace nonstop {

// A stretch of the text: either the token `id`, or text still to be encoded (id == kNoToken).
struct TextFragment {
  TokenId id;
  uint32_t begin;
  uint32_t end;

  bool operator==(const TextFragment&) const = default;
};

class SpecialTokens {
 public:
  SpecialTokens() = default;
  explicit SpecialTokens(const Vocabulary& vocabulary);

  // Covers the text from left to right, but for white space that a token strips. With
  // `parse_special` false only user-defined tokens count. `step_count`, if given, is added to.
  std::vector<TextFragment> Partition(const Vocabulary& vocabulary, std::string_view text,
                                      bool parse_special, uint64_t* step_count = nullptr) const;

  size_t count() const { return by_text_.size(); }
  size_t memory_size_bytes() const {
    return 4 * (by_text_.capacity() + order_.capacity() + by_order_.capacity());
  }

 private:
  struct Search;
  struct Claim {
    uint32_t begin;
    uint32_t end;
    uint32_t right;  // where the text goes on: past what was stripped
    TokenId id;
  };

  // The longest token at `begin` that is at most `limit` bytes long; its place, or kNoPlace.
  uint32_t LongestAt(Search* search, uint32_t begin, size_t limit) const;
  void OrderByLength(const Vocabulary& vocabulary);
  void QueueLongestTokens(Search* search) const;
  std::vector<Claim> TakeInOrder(Search* search) const;

  static constexpr uint32_t kNoPlace = 0xffffffffu;

  std::vector<TokenId> by_text_;                // ascending by text, so that prefixes stand before
  std::vector<uint32_t> order_;                 // of each place: rank by (length descending, id)
  std::vector<uint32_t> by_order_;              // the inverse
  std::array<uint32_t, 257> first_bytes_ = {};  // where each first byte starts in by_text_
};

}  // namespace nonstop
