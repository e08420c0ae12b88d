// Byte-level byte-pair encoding: the bytes of a word are symbols, and the pair of the lowest rank
// is merged until no pair has one.
// A merge list names texts, not tokens; here texts become symbol numbers once (tokens first, then
// what only occurs in merges), so that encoding handles numbers only.
// Cost: O(n log n) for a word of n bytes, 16 bytes of memory per byte and 8 per queued pair.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/min_heap.h"
#include "text/text_table.h"
#include "text/vocabulary.h"

namespace nonstop {

// GPT-2 writes byte b as this code point: printable bytes as themselves, the others from U+0100 on.
uint32_t CodePointOfByte(uint8_t byte);
// The inverse; -1 for a code point that stands for no byte.
int ByteOfCodePoint(uint32_t code_point);

class BytePairEncoder {
 public:
  // Reusable memory of one Encode call, and what it counted.
  struct Workspace {
    struct Symbol {
      uint32_t number;  // kGone once merged into its left neighbour
      uint32_t previous;
      uint32_t next;
    };
    std::vector<Symbol> symbols;
    MinHeap queue;        // rank, left symbol
    std::string written;  // the word as the vocabulary writes it
    uint64_t lookup_count = 0;
  };

  static Result<BytePairEncoder> Create(const TokenizerSpec& spec, const Vocabulary& vocabulary,
                                        bool ignores_merges);

  // `word` is one word in UTF-8.
  void Encode(const Vocabulary& vocabulary, std::string_view word, Workspace* workspace,
              std::vector<TokenId>* out) const;
  size_t memory_size_bytes() const;

 private:
  struct Merge {
    uint32_t left;
    uint32_t right;
    uint32_t merged;
  };
  static constexpr uint32_t kNone = 0xffffffffu;
  static constexpr uint32_t kGone = 0xfffffffeu;

  Status AddMerges(const GgufStringArray& merges, const Vocabulary& vocabulary);
  // The number of `text`, a new one if need be; kNone when the table refuses it.
  uint32_t NumberOf(const Vocabulary& vocabulary, std::string_view text);
  bool AddMerge(const Merge& merge);
  uint32_t FindRank(uint32_t left, uint32_t right) const;
  uint32_t FindSlot(uint32_t left, uint32_t right) const;

  void StartWord(std::string_view word, Workspace* workspace) const;
  void Queue(uint32_t left, Workspace* workspace) const;
  void MergeTop(Workspace* workspace) const;
  void Emit(const Vocabulary& vocabulary, uint32_t number, std::vector<TokenId>* out) const;

  uint32_t token_count_ = 0;
  bool ignores_merges_ = false;
  TextTable extra_texts_;  // symbol token_count_ + i
  std::array<uint32_t, 256> byte_symbols_;
  std::vector<Merge> merges_;    // by rank
  std::vector<uint32_t> slots_;  // open addressing: ranks
};

}  // namespace nonstop
