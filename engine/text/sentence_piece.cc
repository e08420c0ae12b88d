#include "text/sentence_piece.h"

#include <algorithm>
#include <bit>

#include "base/format.h"
#include "text/unicode.h"

namespace nonstop {
namespace {

// Ascending where scores descend. NaN comes last; the two zeros are equal.
uint32_t DescendingKey(float score) {
  if (score != score) return 0xffffffffu;
  const auto bits = std::bit_cast<uint32_t>(score + 0.0f);
  const uint32_t ascending = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  return ~ascending;
}

}  // namespace

// A byte's token is <0xXX>, else the byte itself, else the unknown token.
SentencePieceEncoder::SentencePieceEncoder(const Vocabulary& vocabulary) {
  for (unsigned byte = 0; byte < 256; ++byte) {
    const auto raw = static_cast<char>(byte);
    TokenId id = vocabulary.Find(Format("<0x%02X>", byte));
    if (id == kNoToken) id = vocabulary.Find(std::string_view(&raw, 1));
    byte_tokens_[byte] = id == kNoToken ? vocabulary.special(SpecialRole::kUnknown) : id;
  }
}

void SentencePieceEncoder::Encode(const Vocabulary& vocabulary, std::string_view text,
                                  Workspace* workspace, std::vector<TokenId>* out) const {
  if (text.empty()) return;
  StartText(vocabulary, text, workspace);
  while (!workspace->queue.empty()) MergeTop(vocabulary, text, workspace);
  for (uint32_t i = 0; i != kNone; i = workspace->symbols[i].next) {
    const auto& symbol = workspace->symbols[i];
    const std::string_view piece = text.substr(symbol.begin, symbol.size);
    const TokenId id = vocabulary.Find(piece);
    if (id != kNoToken) {
      out->push_back(id);
      continue;
    }
    for (const char byte : piece) {
      const TokenId byte_token = byte_tokens_[static_cast<uint8_t>(byte)];
      if (byte_token != kNoToken) out->push_back(byte_token);
    }
  }
}

void SentencePieceEncoder::StartText(const Vocabulary& vocabulary, std::string_view text,
                                     Workspace* workspace) const {
  auto& symbols = workspace->symbols;
  symbols.clear();
  workspace->queue.clear();
  for (size_t begin = 0; begin < text.size();) {
    const size_t size =
        std::min(Utf8Length(static_cast<uint8_t>(text[begin])), text.size() - begin);
    const auto index = static_cast<uint32_t>(symbols.size());
    symbols.push_back({static_cast<uint32_t>(begin), static_cast<uint32_t>(size), index - 1,
                       begin + size < text.size() ? index + 1 : kNone, kNoToken});
    begin += size;
  }
  for (uint32_t i = 0; i < symbols.size(); ++i) Queue(vocabulary, text, i, workspace);
}

// Queues the pair that starts at symbol `left`, if it forms a token.
void SentencePieceEncoder::Queue(const Vocabulary& vocabulary, std::string_view text, uint32_t left,
                                 Workspace* workspace) const {
  auto& symbol = workspace->symbols[left];
  symbol.pair = kNoToken;
  if (symbol.next == kNone) return;
  ++workspace->lookup_count;
  const uint32_t size = symbol.size + workspace->symbols[symbol.next].size;
  symbol.pair = vocabulary.Find(text.substr(symbol.begin, size));
  if (symbol.pair == kNoToken) return;
  workspace->queue.Push(DescendingKey(vocabulary.score(symbol.pair)), left);
}

// Merges the best pair. One that changed since it was queued is dropped, unless what it is now has
// the same score: then its own entry is the next in line anyway.
void SentencePieceEncoder::MergeTop(const Vocabulary& vocabulary, std::string_view text,
                                    Workspace* workspace) const {
  const uint64_t key = workspace->queue.Pop();
  const auto left = static_cast<uint32_t>(key);
  auto& symbols = workspace->symbols;
  const TokenId pair = symbols[left].pair;
  if (pair == kNoToken || DescendingKey(vocabulary.score(pair)) != key >> 32) return;

  const uint32_t right = symbols[left].next;
  symbols[left].size += symbols[right].size;
  symbols[left].next = symbols[right].next;
  symbols[right].pair = kNoToken;
  if (symbols[right].next != kNone) symbols[symbols[right].next].previous = left;
  if (symbols[left].previous != kNone) Queue(vocabulary, text, symbols[left].previous, workspace);
  Queue(vocabulary, text, left, workspace);
}

}  // namespace nonstop
