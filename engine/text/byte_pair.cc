#include "text/byte_pair.h"

#include <bit>
#include <string>

#include "text/unicode.h"

namespace nonstop {
namespace {

bool IsPrintable(uint32_t byte) {
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) ||
         (byte >= 0xae && byte <= 0xff);
}

void AppendWritten(std::string_view bytes, std::string* out) {
  for (const char byte : bytes) AppendUtf8(CodePointOfByte(static_cast<uint8_t>(byte)), out);
}

uint64_t HashPair(uint32_t left, uint32_t right) {
  uint64_t hash = (static_cast<uint64_t>(left) << 32 | right) * 0x9e3779b97f4a7c15u;
  hash = (hash ^ (hash >> 32)) * 0xd6e8feb86659fd93u;
  return hash ^ (hash >> 32);
}

}  // namespace

// The unprintable bytes in order: 0x00-0x20, 0x7f-0xa0, 0xad.
uint32_t CodePointOfByte(uint8_t byte) {
  if (IsPrintable(byte)) return byte;
  if (byte <= 0x20) return 0x100u + byte;
  return byte == 0xad ? 0x143u : 0x100u + 0x21u + (byte - 0x7fu);
}

int ByteOfCodePoint(uint32_t code_point) {
  if (code_point < 0x100) return IsPrintable(code_point) ? static_cast<int>(code_point) : -1;
  if (code_point <= 0x120) return static_cast<int>(code_point - 0x100);
  if (code_point <= 0x142) return static_cast<int>(code_point - 0x121 + 0x7f);
  return code_point == 0x143 ? 0xad : -1;
}

Result<BytePairEncoder> BytePairEncoder::Create(const TokenizerSpec& spec,
                                                const Vocabulary& vocabulary, bool ignores_merges) {
  if (!spec.merges) {
    return MakeError(ErrorCode::kMissingMetadata,
                     "A tokenizer of model \"gpt2\" needs merges (key \"tokenizer.ggml.merges\").");
  }
  BytePairEncoder encoder;
  encoder.token_count_ = vocabulary.size();
  encoder.ignores_merges_ = ignores_merges;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    std::string written;
    AppendUtf8(CodePointOfByte(static_cast<uint8_t>(byte)), &written);
    encoder.byte_symbols_[byte] = encoder.NumberOf(vocabulary, written);
  }
  TRY(encoder.AddMerges(*spec.merges, vocabulary));
  return encoder;
}

Status BytePairEncoder::AddMerges(const GgufStringArray& merges, const Vocabulary& vocabulary) {
  const auto count = static_cast<size_t>(merges.count());
  merges_.reserve(count);
  slots_.assign(std::bit_ceil(count + count / 2 + 1), kNone);
  bool ok = true;
  std::string joined;
  merges.ForEach([&](uint64_t, std::string_view text) {
    if (!ok) return;
    // "left right"; the first byte belongs to the left side even when it is a space.
    const size_t space = text.find(' ', 1);
    Merge merge{kNone, kNone, kNone};
    if (space != std::string_view::npos && space + 1 < text.size()) {
      const std::string_view left = text.substr(0, space);
      const std::string_view right = text.substr(space + 1);
      joined.assign(left).append(right);
      merge = {NumberOf(vocabulary, left), NumberOf(vocabulary, right),
               NumberOf(vocabulary, joined)};
      ok = merge.left != kNone && merge.right != kNone && merge.merged != kNone;
    }
    // A malformed line keeps its rank and merges nothing, as in llama.cpp.
    ok = ok && AddMerge(merge);
  });
  if (ok) return {};
  return MakeError(ErrorCode::kMalformed,
                   "The merges (%zu) are made so that they collide (at merge (%zu)).", count,
                   merges_.size());
}

uint32_t BytePairEncoder::NumberOf(const Vocabulary& vocabulary, std::string_view text) {
  const TokenId id = vocabulary.Find(text);
  if (id != kNoToken) return static_cast<uint32_t>(id);
  const TextTable::Added added = extra_texts_.Add(text);
  if (added == TextTable::Added::kTooManyCollisions) return kNone;
  if (added == TextTable::Added::kNew) return token_count_ + extra_texts_.size() - 1;
  return token_count_ + extra_texts_.Find(text);
}

// Of two equal merges the first counts.
bool BytePairEncoder::AddMerge(const Merge& merge) {
  const auto rank = static_cast<uint32_t>(merges_.size());
  merges_.push_back(merge);
  if (merge.left == kNone) return true;
  const uint32_t slot = FindSlot(merge.left, merge.right);
  if (slot == kNone) return false;
  if (slots_[slot] == kNone) slots_[slot] = rank;
  return true;
}

uint32_t BytePairEncoder::FindSlot(uint32_t left, uint32_t right) const {
  const size_t mask = slots_.size() - 1;
  size_t slot = HashPair(left, right) & mask;
  for (uint32_t probe = 0; probe < TextTable::kProbeLimit; ++probe) {
    const uint32_t rank = slots_[slot];
    if (rank == kNone || (merges_[rank].left == left && merges_[rank].right == right)) {
      return static_cast<uint32_t>(slot);
    }
    slot = (slot + 1) & mask;
  }
  return kNone;
}

uint32_t BytePairEncoder::FindRank(uint32_t left, uint32_t right) const {
  const uint32_t slot = FindSlot(left, right);
  return slot == kNone ? kNone : slots_[slot];
}

void BytePairEncoder::Encode(const Vocabulary& vocabulary, std::string_view word,
                             Workspace* workspace, std::vector<TokenId>* out) const {
  if (ignores_merges_ && word.size() <= vocabulary.longest_size_bytes()) {
    workspace->written.clear();
    AppendWritten(word, &workspace->written);
    const TokenId id = vocabulary.Find(workspace->written);
    if (id != kNoToken) {
      out->push_back(id);
      return;
    }
  }
  StartWord(word, workspace);
  while (!workspace->queue.empty()) MergeTop(workspace);
  if (word.empty()) return;
  for (uint32_t i = 0; i != kNone; i = workspace->symbols[i].next) {
    Emit(vocabulary, workspace->symbols[i].number, out);
  }
}

void BytePairEncoder::StartWord(std::string_view word, Workspace* workspace) const {
  const auto size = static_cast<uint32_t>(word.size());
  workspace->symbols.resize(size);
  workspace->queue.clear();
  for (uint32_t i = 0; i < size; ++i) {
    workspace->symbols[i] = {byte_symbols_[static_cast<uint8_t>(word[i])], i - 1,
                             i + 1 < size ? i + 1 : kNone};
  }
  for (uint32_t i = 0; i < size; ++i) Queue(i, workspace);
}

// Queues the pair that starts at symbol `left`, if it has a rank.
void BytePairEncoder::Queue(uint32_t left, Workspace* workspace) const {
  const uint32_t right = workspace->symbols[left].next;
  if (right == kNone) return;
  ++workspace->lookup_count;
  const uint32_t rank = FindRank(workspace->symbols[left].number, workspace->symbols[right].number);
  if (rank == kNone) return;
  workspace->queue.Push(rank, left);
}

// Merges the best pair; one that changed since it was queued is only dropped.
void BytePairEncoder::MergeTop(Workspace* workspace) const {
  const uint64_t key = workspace->queue.Pop();
  const Merge& merge = merges_[static_cast<size_t>(key >> 32)];
  const auto left = static_cast<uint32_t>(key);
  auto& symbols = workspace->symbols;
  const uint32_t right = symbols[left].next;
  if (symbols[left].number != merge.left) return;
  if (right == kNone || symbols[right].number != merge.right) return;

  symbols[left].number = merge.merged;
  symbols[left].next = symbols[right].next;
  symbols[right].number = kGone;
  if (symbols[right].next != kNone) symbols[symbols[right].next].previous = left;
  if (symbols[left].previous != kNone) Queue(symbols[left].previous, workspace);
  Queue(left, workspace);
}

// What no token stands for comes out byte by byte (of its written form), as far as there are tokens
// for these: llama.cpp's rule, which only odd vocabularies meet.
void BytePairEncoder::Emit(const Vocabulary& vocabulary, uint32_t number,
                           std::vector<TokenId>* out) const {
  if (number < token_count_) {
    out->push_back(static_cast<TokenId>(number));
    return;
  }
  const std::string_view text = extra_texts_[number - token_count_];
  for (size_t i = 0; i < text.size(); ++i) {
    const TokenId id = vocabulary.Find(text.substr(i, 1));
    if (id != kNoToken) out->push_back(id);
  }
}

size_t BytePairEncoder::memory_size_bytes() const {
  return extra_texts_.memory_size_bytes() + sizeof(Merge) * merges_.capacity() +
         4 * slots_.capacity();
}

}  // namespace nonstop
