#include "webgpu/lzma.h"

#include <algorithm>
#include <memory>

namespace nonstop {
namespace {

using Probability = uint16_t;  // of 0, in 2^-11

constexpr uint32_t kStates = 12;  // of what came last: below 7 a literal
constexpr uint32_t kLengthContexts = 4;

struct LengthModel {
  Probability is_long[2];  // 8 and more; 16 and more
  Probability low[8];
  Probability middle[8];
  Probability high[256];
};

struct Model {
  Probability literals[8][0x300];
  Probability is_match[kStates];
  Probability is_repeat[kStates];  // of one of the last four distances
  Probability is_older[3][kStates];
  Probability is_longer_than_one[kStates];
  Probability slots[kLengthContexts][64];
  Probability distances[128];
  Probability aligned[16];
  LengthModel length;
  LengthModel repeat_length;
};

class Reader {
 public:
  explicit Reader(const uint8_t* packed) : at_(packed + 1) {
    std::fill_n(reinterpret_cast<Probability*>(model_.get()), sizeof(Model) / sizeof(Probability),
                1024);
    for (int i = 0; i < 4; ++i) code_ = code_ << 8 | *at_++;
  }

  std::string Read(size_t size);

 private:
  uint32_t Bit(Probability* probability);
  uint32_t PlainBits(uint32_t count);
  uint32_t Tree(Probability* tree, uint32_t bit_count);
  uint32_t ReverseTree(Probability* tree, uint32_t bit_count);
  uint32_t Length(LengthModel* length);
  uint32_t Distance(uint32_t length);
  char Literal(const std::string& text, bool follows_match);

  std::unique_ptr<Model> model_ = std::make_unique<Model>();
  const uint8_t* at_;
  uint32_t range_ = UINT32_MAX;
  uint32_t code_ = 0;
  uint32_t last_[4] = {};  // distances, less 1
};

uint32_t Reader::Bit(Probability* probability) {
  const uint32_t bound = (range_ >> 11) * *probability;
  const uint32_t bit = code_ < bound ? 0 : 1;
  if (bit == 0) {
    range_ = bound;
    *probability = static_cast<Probability>(*probability + ((2048 - *probability) >> 5));
  } else {
    range_ -= bound;
    code_ -= bound;
    *probability = static_cast<Probability>(*probability - (*probability >> 5));
  }
  if (range_ < 1u << 24) {
    range_ <<= 8;
    code_ = code_ << 8 | *at_++;
  }
  return bit;
}

uint32_t Reader::PlainBits(uint32_t count) {
  uint32_t value = 0;
  while (count-- > 0) {
    range_ >>= 1;
    const uint32_t bit = code_ >= range_ ? 1 : 0;
    if (bit != 0) code_ -= range_;
    value = value << 1 | bit;
    if (range_ < 1u << 24) {
      range_ <<= 8;
      code_ = code_ << 8 | *at_++;
    }
  }
  return value;
}

uint32_t Reader::Tree(Probability* tree, uint32_t bit_count) {
  uint32_t node = 1;
  for (uint32_t i = 0; i < bit_count; ++i) node = node << 1 | Bit(&tree[node]);
  return node - (1u << bit_count);
}

uint32_t Reader::ReverseTree(Probability* tree, uint32_t bit_count) {
  uint32_t node = 1;
  uint32_t value = 0;
  for (uint32_t i = 0; i < bit_count; ++i) {
    const uint32_t bit = Bit(&tree[node]);
    node = node << 1 | bit;
    value |= bit << i;
  }
  return value;
}

// Less 2.
uint32_t Reader::Length(LengthModel* length) {
  if (Bit(&length->is_long[0]) == 0) return Tree(length->low, 3);
  if (Bit(&length->is_long[1]) == 0) return 8 + Tree(length->middle, 3);
  return 16 + Tree(length->high, 8);
}

uint32_t Reader::Distance(uint32_t length) {
  const uint32_t slot = Tree(model_->slots[std::min(length, kLengthContexts - 1)], 6);
  if (slot < 4) return slot;
  const uint32_t bit_count = (slot >> 1) - 1;
  const uint32_t first = (2 | (slot & 1)) << bit_count;
  if (slot < 14) return first + ReverseTree(&model_->distances[first - slot], bit_count);
  const uint32_t high = PlainBits(bit_count - 4) << 4;
  return first + high + ReverseTree(model_->aligned, 4);
}

// After a match its next byte tells something.
char Reader::Literal(const std::string& text, bool follows_match) {
  const uint32_t before = text.empty() ? 0 : static_cast<uint8_t>(text.back());
  Probability* tree = model_->literals[before >> 5];
  uint32_t node = 1;
  if (follows_match) {
    uint32_t other = static_cast<uint8_t>(text[text.size() - last_[0] - 1]);
    while (node < 0x100) {
      const uint32_t other_bit = other >> 7 & 1;
      other <<= 1;
      const uint32_t bit = Bit(&tree[0x100 + (other_bit << 8) + node]);
      node = node << 1 | bit;
      if (bit != other_bit) break;
    }
  }
  while (node < 0x100) node = node << 1 | Bit(&tree[node]);
  return static_cast<char>(node);
}

std::string Reader::Read(size_t size) {
  std::string text;
  text.reserve(size);
  uint32_t state = 0;
  while (text.size() < size) {
    if (Bit(&model_->is_match[state]) == 0) {
      text.push_back(Literal(text, state >= 7));
      state = state < 4 ? 0 : state < 10 ? state - 3 : state - 6;
      continue;
    }
    const uint32_t after_literal = state < 7 ? 0 : 3;
    uint32_t length = 0;
    if (Bit(&model_->is_repeat[state]) == 0) {
      std::copy_backward(last_, last_ + 3, last_ + 4);
      length = Length(&model_->length) + 2;
      last_[0] = Distance(length - 2);
      state = 7 + after_literal;
    } else {
      uint32_t which = 0;
      while (which < 3 && Bit(&model_->is_older[which][state]) != 0) ++which;
      if (which == 0 && Bit(&model_->is_longer_than_one[state]) == 0) {
        length = 1;
        state = after_literal == 0 ? 9 : 11;
      } else {
        std::rotate(last_, last_ + which, last_ + which + 1);
        length = Length(&model_->repeat_length) + 2;
        state = after_literal == 0 ? 8 : 11;
      }
    }
    for (uint32_t i = 0; i < length; ++i) text.push_back(text[text.size() - last_[0] - 1]);
  }
  return text;
}

}  // namespace

std::string UnpackLzma(std::span<const uint8_t> packed, size_t size) {
  return Reader(packed.data()).Read(size);
}

}  // namespace nonstop
