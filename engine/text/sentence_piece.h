// SentencePiece as llama.cpp runs it: the characters of the text are symbols, and the neighbours
// that form the token of the highest score are merged until none form one. What is no token in the
// end comes out as byte tokens (<0x0A>).
// Cost: O(n log n) for a text of n bytes, 20 bytes of memory per character and 8 per queued pair.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "text/min_heap.h"
#include "text/vocabulary.h"

namespace nonstop {

class SentencePieceEncoder {
 public:
  struct Workspace {
    struct Symbol {
      uint32_t begin;
      uint32_t size;
      uint32_t previous;
      uint32_t next;
      TokenId pair;  // what this and the next symbol form together
    };
    std::vector<Symbol> symbols;
    MinHeap queue;  // score (descending), left symbol
    uint64_t lookup_count = 0;
  };

  SentencePieceEncoder() = default;
  explicit SentencePieceEncoder(const Vocabulary& vocabulary);

  // `text` has its spaces written as U+2581 already.
  void Encode(const Vocabulary& vocabulary, std::string_view text, Workspace* workspace,
              std::vector<TokenId>* out) const;

 private:
  static constexpr uint32_t kNone = 0xffffffffu;

  void StartText(const Vocabulary& vocabulary, std::string_view text, Workspace* workspace) const;
  void Queue(const Vocabulary& vocabulary, std::string_view text, uint32_t left,
             Workspace* workspace) const;
  void MergeTop(const Vocabulary& vocabulary, std::string_view text, Workspace* workspace) const;

  TokenId byte_tokens_[256];
};

}  // namespace nonstop
