#include "text/tokenizer.h"

#include <optional>
#include <utility>

#include "base/format.h"
#include "text/byte_pair.h"
#include "text/pre_tokenizer.h"
#include "text/sentence_piece.h"
#include "text/special_tokens.h"

namespace nonstop {
namespace {

constexpr std::string_view kBytePairModel = "gpt2";
constexpr std::string_view kSentencePieceModel = "llama";
constexpr std::string_view kEscapedSpace = "\xe2\x96\x81";  // U+2581

void AppendEscapingSpaces(std::string_view text, std::string* out) {
  for (const char c : text) {
    if (c == ' ') {
      out->append(kEscapedSpace);
    } else {
      out->push_back(c);
    }
  }
}

void AppendUnescapingSpaces(std::string_view text, std::string* out) {
  for (size_t i = 0; i < text.size();) {
    const bool escaped = text.substr(i).starts_with(kEscapedSpace);
    out->push_back(escaped ? ' ' : text[i]);
    i += escaped ? kEscapedSpace.size() : 1;
  }
}

// The bytes that a byte-level token's text is written for; llama.cpp's remark where it is not one.
void AppendUnwritten(std::string_view text, std::string* out) {
  for (size_t offset = 0; offset < text.size();) {
    const uint32_t code_point = NextCodePoint(text, &offset);
    const int byte = ByteOfCodePoint(code_point);
    if (byte >= 0) {
      out->push_back(static_cast<char>(byte));
      continue;
    }
    std::string utf8;
    AppendUtf8(code_point, &utf8);
    out->append("[UNK_BYTE_0x");
    for (const char c : utf8) AppendFormat(*out, "%02x", static_cast<uint8_t>(c));
    out->append(text).push_back(']');
  }
}

int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// "<0x0A>" is byte 10; another text of type kByte stands for nothing.
void AppendByteToken(std::string_view text, std::string* out) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return;
  const int high = HexValue(text[3]);
  const int low = HexValue(text[4]);
  if (high >= 0 && low >= 0) out->push_back(static_cast<char>(high * 16 + low));
}

// llama.cpp's defaults for a file that is silent.
VocabularyDefaults DefaultsOf(const PreTokenizer* pre_tokenizer) {
  VocabularyDefaults defaults;
  if (!pre_tokenizer) {
    defaults.bos = 1;
    defaults.eos = 2;
    defaults.unknown = 0;
    defaults.add_bos = true;
    defaults.add_space_prefix = true;
    return defaults;
  }
  defaults.bos = pre_tokenizer->has_default_bos ? 11 : kNoToken;
  defaults.eos = 11;
  defaults.add_bos = pre_tokenizer->adds_bos;
  return defaults;
}

}  // namespace

struct Tokenizer::Tables {
  std::string model_name;
  std::string pre_tokenizer_name;
  Vocabulary vocabulary;
  SpecialTokens special_tokens;
  const PreTokenizer* pre_tokenizer = nullptr;  // of byte-level BPE
  std::optional<BytePairEncoder> byte_pair;     // one of these two
  SentencePieceEncoder sentence_piece;

  void EncodeBytePair(std::string_view text, BytePairEncoder::Workspace* workspace,
                      std::vector<TokenId>* out) const;
};

Tokenizer::Tokenizer(std::unique_ptr<const Tables> tables) : tables_(std::move(tables)) {}
Tokenizer::~Tokenizer() = default;

Result<std::unique_ptr<Tokenizer>> Tokenizer::Create(const Gguf& gguf) {
  TokenizerSpec spec;
  TRY(ReadTokenizerSpec(gguf, &spec));
  return Create(spec);
}

Result<std::unique_ptr<Tokenizer>> Tokenizer::Create(const TokenizerSpec& spec) {
  if (spec.model.empty()) {
    return MakeError(ErrorCode::kMissingMetadata,
                     "The file does not say which tokenizer it needs (key "
                     "\"tokenizer.ggml.model\").");
  }
  const bool is_byte_pair = spec.model == kBytePairModel;
  if (!is_byte_pair && spec.model != kSentencePieceModel) {
    return MakeError(ErrorCode::kUnsupportedTokenizer,
                     "The tokenizer model \"%s\" is not supported (\"gpt2\" and \"llama\" are).",
                     Printable(spec.model).c_str());
  }
  auto tables = std::make_unique<Tables>();
  if (is_byte_pair) {
    tables->pre_tokenizer = FindPreTokenizer(spec.pre);
    if (!tables->pre_tokenizer) {
      return MakeError(ErrorCode::kUnsupportedTokenizer,
                       "The pre-tokenizer \"%s\" is not supported.", Printable(spec.pre).c_str());
    }
  }
  tables->model_name = spec.model;
  tables->pre_tokenizer_name = spec.pre;
  ASSIGN_OR_RETURN(tables->vocabulary, Vocabulary::Create(spec, DefaultsOf(tables->pre_tokenizer)));
  tables->special_tokens = SpecialTokens(tables->vocabulary);
  if (is_byte_pair) {
    ASSIGN_OR_RETURN(
        tables->byte_pair,
        BytePairEncoder::Create(spec, tables->vocabulary, tables->pre_tokenizer->ignores_merges));
  } else {
    tables->sentence_piece = SentencePieceEncoder(tables->vocabulary);
  }
  return std::unique_ptr<Tokenizer>(new Tokenizer(std::move(tables)));
}

uint32_t Tokenizer::vocabulary_size() const { return tables_->vocabulary.size(); }
TokenId Tokenizer::bos() const { return tables_->vocabulary.special(SpecialRole::kBos); }
TokenId Tokenizer::eos() const { return tables_->vocabulary.special(SpecialRole::kEos); }
TokenId Tokenizer::unknown() const { return tables_->vocabulary.special(SpecialRole::kUnknown); }
bool Tokenizer::adds_bos() const { return tables_->vocabulary.adds_bos(); }
bool Tokenizer::adds_eos() const { return tables_->vocabulary.adds_eos(); }
bool Tokenizer::adds_space_prefix() const { return tables_->vocabulary.adds_space_prefix(); }
bool Tokenizer::IsEnd(TokenId id) const { return tables_->vocabulary.IsEnd(id); }
std::span<const TokenId> Tokenizer::end_tokens() const { return tables_->vocabulary.end_tokens(); }
std::string_view Tokenizer::model_name() const { return tables_->model_name; }
std::string_view Tokenizer::pre_tokenizer_name() const { return tables_->pre_tokenizer_name; }

TokenType Tokenizer::type(TokenId id) const {
  CHECK(id >= 0 && static_cast<uint32_t>(id) < vocabulary_size());
  return tables_->vocabulary.type(id);
}

std::string_view Tokenizer::text(TokenId id) const {
  CHECK(id >= 0 && static_cast<uint32_t>(id) < vocabulary_size());
  return tables_->vocabulary.text(id);
}

TokenId Tokenizer::Find(std::string_view text) const { return tables_->vocabulary.Find(text); }

size_t Tokenizer::memory_size_bytes() const {
  const size_t encoder = tables_->byte_pair ? tables_->byte_pair->memory_size_bytes() : 0;
  return sizeof(Tables) + tables_->vocabulary.memory_size_bytes() +
         tables_->special_tokens.memory_size_bytes() + encoder;
}

void Tokenizer::Tables::EncodeBytePair(std::string_view text, BytePairEncoder::Workspace* workspace,
                                       std::vector<TokenId>* out) const {
  const std::vector<ClassifiedCodePoint> code_points = Classify(text);
  std::string word;
  uint32_t begin = 0;
  for (const uint32_t end : SplitWords(*pre_tokenizer, code_points)) {
    word.clear();
    for (; begin < end; ++begin) AppendUtf8(code_points[begin].value(), &word);
    byte_pair->Encode(vocabulary, word, workspace, out);
  }
}

std::vector<TokenId> Tokenizer::Encode(std::string_view text, TokenizeOptions options) const {
  const Tables& tables = *tables_;
  std::vector<TokenId> ids;
  if (options.add_special && adds_bos()) ids.push_back(bos());
  BytePairEncoder::Workspace byte_pair_workspace;
  SentencePieceEncoder::Workspace sentence_piece_workspace;
  std::string escaped;
  bool follows_special = true;
  for (const TextFragment& fragment :
       tables.special_tokens.Partition(tables.vocabulary, text, options.parse_special)) {
    const std::string_view raw = text.substr(fragment.begin, fragment.end - fragment.begin);
    if (fragment.id != kNoToken) {
      ids.push_back(fragment.id);
    } else if (tables.byte_pair) {
      tables.EncodeBytePair(raw, &byte_pair_workspace, &ids);
    } else {
      escaped.clear();
      if (follows_special && adds_space_prefix()) escaped.append(kEscapedSpace);
      AppendEscapingSpaces(raw, &escaped);
      tables.sentence_piece.Encode(tables.vocabulary, escaped, &sentence_piece_workspace, &ids);
    }
    follows_special = fragment.id != kNoToken;
  }
  if (options.add_special && adds_eos()) ids.push_back(eos());
  return ids;
}

void Tokenizer::AppendPiece(TokenId id, bool with_special, std::string* out) const {
  if (id < 0 || static_cast<uint32_t>(id) >= vocabulary_size()) return;
  const Vocabulary& vocabulary = tables_->vocabulary;
  const std::string_view text = vocabulary.text(id);
  if (vocabulary.Has(id, TokenAttribute::kSpecial)) {
    if (with_special) out->append(text);
  } else if (vocabulary.Has(id, TokenAttribute::kUserDefined)) {
    out->append(text);
  } else if (vocabulary.Has(id, TokenAttribute::kNormal)) {
    (tables_->byte_pair ? AppendUnwritten : AppendUnescapingSpaces)(text, out);
  } else if (vocabulary.Has(id, TokenAttribute::kByte)) {
    AppendByteToken(text, out);
  }
}

}  // namespace nonstop
