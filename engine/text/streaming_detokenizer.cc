// StreamingDetokenizer: bytes of pieces in, whole UTF-8 sequences out.
// Source of the rules: Unicode 15.1, table 3-7 (well-formed sequences) and "U+FFFD substitution of
// maximal subparts".
#include "text/tokenizer.h"
#include "text/unicode.h"

namespace nonstop {
namespace {

// May `byte` stand second after `first`? Keeps out overlong forms, surrogates and > U+10FFFF.
bool MayBeSecond(uint8_t first, uint8_t byte) {
  const uint8_t low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  const uint8_t high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  return byte >= low && byte <= high;
}

}  // namespace

StreamingDetokenizer::StreamingDetokenizer(const Tokenizer& tokenizer, bool with_special,
                                           bool starts_text)
    : tokenizer_(&tokenizer),
      with_special_(with_special),
      drops_space_(starts_text && tokenizer.adds_space_prefix()) {}

void StreamingDetokenizer::Push(TokenId id, std::string* out) {
  piece_.clear();
  tokenizer_->AppendPiece(id, with_special_, &piece_);
  const bool drops_space = drops_space_ && piece_.starts_with(' ');
  drops_space_ = false;
  for (size_t i = drops_space ? 1 : 0; i < piece_.size(); ++i) PushByte(piece_[i], out);
}

void StreamingDetokenizer::Finish(std::string* out) { Flush(out); }

void StreamingDetokenizer::Flush(std::string* out) {
  if (pending_count_ > 0) AppendUtf8(kReplacementCodePoint, out);
  pending_count_ = 0;
}

void StreamingDetokenizer::PushByte(char byte, std::string* out) {
  const auto value = static_cast<uint8_t>(byte);
  if (pending_count_ > 0) {
    const auto first = static_cast<uint8_t>(pending_[0]);
    const bool continues = pending_count_ == 1 ? MayBeSecond(first, value) : (value & 0xc0) == 0x80;
    if (continues) {
      pending_[pending_count_++] = byte;
      if (pending_count_ < Utf8Length(first)) return;
      out->append(pending_, pending_count_);
      pending_count_ = 0;
      return;
    }
    Flush(out);
  }
  if (value < 0x80) {
    out->push_back(byte);
  } else if (value >= 0xc2 && value <= 0xf4) {
    pending_[pending_count_++] = byte;
  } else {
    AppendUtf8(kReplacementCodePoint, out);
  }
}

}  // namespace nonstop
