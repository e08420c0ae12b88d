// Text <-> token ids, equal to llama.cpp's for the same vocabulary.
// Two models: byte-level BPE (a pre-tokenizer splits the text, merges by rank) and SentencePiece
// (merges by score, byte fallback, space prefix). Special and added tokens are found first.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "format/gguf.h"
#include "text/vocabulary.h"  // TokenId, kNoToken, TokenType

namespace nonstop {

struct TokenizeOptions {
  bool add_special = true;    // BOS/EOS as the model asks for
  bool parse_special = true;  // "<|im_end|>" in the text becomes its token
};

class Tokenizer {
 public:
  // Reads tokenizer.ggml.*; copies what it keeps (one blob of text and flat tables: no per-token
  // allocation; at most ~3x the vocabulary's bytes).
  static Result<std::unique_ptr<Tokenizer>> Create(const Gguf& gguf);
  static Result<std::unique_ptr<Tokenizer>> Create(const TokenizerSpec& spec);

  ~Tokenizer();

  uint32_t vocabulary_size() const;
  TokenId bos() const;
  TokenId eos() const;
  TokenId unknown() const;
  bool adds_bos() const;
  bool adds_eos() const;
  // A space goes before text that begins the prompt or follows a special token.
  bool adds_space_prefix() const;
  // End-of-generation: eos, eot, eom and the well-known end tokens llama.cpp collects by text.
  bool IsEnd(TokenId id) const;
  std::span<const TokenId> end_tokens() const;
  TokenType type(TokenId id) const;
  std::string_view text(TokenId id) const;      // as in the vocabulary
  TokenId Find(std::string_view text) const;    // kNoToken when absent
  std::string_view model_name() const;          // "gpt2", "llama"
  std::string_view pre_tokenizer_name() const;  // "smollm", ... or ""
  size_t memory_size_bytes() const;             // of the tables

  // Invalid UTF-8 is read as llama.cpp reads it: byte-level BPE takes U+FFFD for each bad byte,
  // SentencePiece falls back to byte tokens. Cost is O(text log text).
  std::vector<TokenId> Encode(std::string_view text, TokenizeOptions options) const;

  // The bytes that a token stands for. Control tokens give nothing unless `with_special`;
  // neither does an id outside the vocabulary.
  void AppendPiece(TokenId id, bool with_special, std::string* out) const;

 private:
  struct Tables;
  explicit Tokenizer(std::unique_ptr<const Tables> tables);

  std::unique_ptr<const Tables> tables_;
};

// Turns a stream of tokens into text. Never emits half a UTF-8 sequence; what cannot become valid
// (or is left at the end) is emitted as U+FFFD, one for each maximal part as in the Unicode
// standard and the web's TextDecoder. Drops the leading space that SentencePiece's
// space prefix adds, where llama.cpp's detokenizer does: from the first token only, and only if the
// tokens start a text (a reply continues its prompt: its first token keeps its space).
class StreamingDetokenizer {
 public:
  StreamingDetokenizer(const Tokenizer& tokenizer, bool with_special, bool starts_text = true);
  // Appends the text that became complete.
  void Push(TokenId id, std::string* out);
  void Finish(std::string* out);

 private:
  void PushByte(char byte, std::string* out);
  void Flush(std::string* out);  // what is pending, as U+FFFD

  const Tokenizer* tokenizer_;
  bool with_special_;
  bool drops_space_;
  uint8_t pending_count_ = 0;
  char pending_[4];
  std::string piece_;
};

}  // namespace nonstop
