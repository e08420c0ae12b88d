// Random vocabularies and random text: nothing may crash or take an id out of range, and a
// well-formed byte-level vocabulary gives the text back.
// Input: flags, pre-tokenizer, token count, tokens, merge count, merges, and the rest is the text.
#include <algorithm>

#include "text/tokenizer_for_test.h"

namespace nonstop {
namespace {

class Input {
 public:
  explicit Input(std::string_view bytes) : bytes_(bytes) {}
  uint8_t Byte() {
    if (bytes_.empty()) return 0;
    const auto byte = static_cast<uint8_t>(bytes_[0]);
    bytes_.remove_prefix(1);
    return byte;
  }
  std::string_view Take(size_t size) {
    const std::string_view taken = bytes_.substr(0, size);
    bytes_.remove_prefix(taken.size());
    return taken;
  }
  std::string_view rest() const { return bytes_; }

 private:
  std::string_view bytes_;
};

struct Flags {
  explicit Flags(uint8_t bits)
      : byte_pairs(bits & 1),
        orderly(bits & 2),
        add_bos(bits & 4),
        add_eos(bits & 8),
        space_prefix(bits & 16),
        phi3(bits & 32),
        parse_special(bits & 64) {}
  bool byte_pairs, orderly, add_bos, add_eos, space_prefix, phi3, parse_special;
};

constexpr const char* kPreTokenizers[] = {"",      "gpt-2",        "smollm", "llama-bpe",
                                          "qwen2", "deepseek-llm", "tekken", "no such"};

// What a fuzzed vocabulary consists of. Orderly: texts are printable ASCII, which stands for itself
// in a byte-level vocabulary, and no type silences a token.
struct FuzzVocabulary {
  std::vector<std::string> texts;
  std::vector<int32_t> types;
  std::vector<float> scores;

  FuzzVocabulary(Input* input, bool orderly) {
    for (int count = input->Byte() % 64; count > 0; --count) {
      const uint8_t head = input->Byte();
      std::string text(input->Take(1 + head % 7));
      uint8_t type = head / 8 % 8;
      if (orderly) {
        for (char& c : text) c = static_cast<char>('!' + static_cast<uint8_t>(c) % 94);
        type = type % 2 ? 3 : 1 + (type % 4 / 2) * 3;
      }
      if (text.empty() || std::find(texts.begin(), texts.end(), text) != texts.end()) continue;
      if (text.size() == 1) continue;  // one of the bytes
      texts.push_back(text);
      types.push_back(type);
      scores.push_back(static_cast<float>(static_cast<int8_t>(input->Byte())) / 4);
    }
  }
};

Result<std::unique_ptr<Tokenizer>> MakeBytePairs(Input* input, const Flags& flags,
                                                 const FuzzVocabulary& vocabulary,
                                                 std::string_view pre) {
  TestBytePairs pairs;
  for (size_t i = 0; i < vocabulary.texts.size(); ++i) {
    pairs.AddToken(vocabulary.texts[i], static_cast<TokenType>(vocabulary.types[i]));
  }
  for (int count = input->Byte() % 64; count > 0; --count) {
    if (flags.orderly) {
      const std::string_view sides = input->Take(2);
      if (sides.size() == 2) pairs.merges.Add(std::string({sides[0], ' ', sides[1]}));
    } else {
      pairs.merges.Add(input->Take(input->Byte() % 8));
    }
  }
  TokenizerSpec spec = pairs.Spec(pre);
  spec.add_bos = flags.add_bos;
  spec.add_eos = flags.add_eos;
  if (flags.phi3) spec.general_name = "phi-3";
  return Tokenizer::Create(spec);
}

Result<std::unique_ptr<Tokenizer>> MakePieces(const Flags& flags,
                                              const FuzzVocabulary& vocabulary) {
  TestPieces pieces;
  for (size_t i = 0; i < vocabulary.texts.size(); ++i) {
    pieces.AddToken(vocabulary.texts[i], vocabulary.scores[i],
                    static_cast<TokenType>(vocabulary.types[i]));
  }
  TokenizerSpec spec = pieces.Spec();
  spec.add_space_prefix = flags.space_prefix;
  if (flags.phi3) spec.general_name = "phi-3";
  return Tokenizer::Create(spec);
}

bool IsWellFormed(std::string_view text) {
  for (size_t offset = 0; offset < text.size();) {
    const size_t begin = offset;
    const uint32_t c = NextCodePoint(text, &offset);
    std::string again;
    AppendUtf8(c, &again);
    if (text.substr(begin, offset - begin) != again || (c >= 0xd800 && c < 0xe000)) return false;
  }
  return true;
}

std::string AsRead(std::string_view text) {
  std::string out;
  for (size_t offset = 0; offset < text.size();) AppendUtf8(NextCodePoint(text, &offset), &out);
  return out;
}

void Exercise(const Tokenizer& tokenizer, const Flags& flags, std::string_view text) {
  std::string whole;
  std::string streamed;
  StreamingDetokenizer detokenizer(tokenizer, true);
  for (const TokenId id : tokenizer.Encode(text, {false, flags.parse_special})) {
    CHECK(id >= 0 && static_cast<uint32_t>(id) < tokenizer.vocabulary_size());
    tokenizer.AppendPiece(id, true, &whole);
    detokenizer.Push(id, &streamed);
  }
  detokenizer.Finish(&streamed);
  CHECK(IsWellFormed(streamed));
  if (IsWellFormed(whole) && !tokenizer.adds_space_prefix()) CHECK(streamed == whole);
  if (flags.byte_pairs && flags.orderly && !flags.phi3) CHECK(AsRead(whole) == AsRead(text));
}

}  // namespace
}  // namespace nonstop

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nonstop;
  Input input(std::string_view(reinterpret_cast<const char*>(data), size));
  const Flags flags(input.Byte());
  const char* pre = kPreTokenizers[input.Byte() % 8];
  const FuzzVocabulary vocabulary(&input, flags.orderly);
  auto tokenizer = flags.byte_pairs ? MakeBytePairs(&input, flags, vocabulary, pre)
                                    : MakePieces(flags, vocabulary);
  if (!tokenizer.ok()) {
    CHECK(tokenizer.error().message.ends_with('.'));
    return 0;
  }
  Exercise(**tokenizer, flags, input.rest());
  return 0;
}
