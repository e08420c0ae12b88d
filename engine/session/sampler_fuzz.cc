// Any logits, options, biases and history: the result is a token with a weight, or an Error; the
// list of candidates agrees with the greedy choice and with a second sampler.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "session/sampler.h"

namespace {

using namespace nonstop;

class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  template <class T>
  T Take() {
    T value{};
    const size_t count = size_ < sizeof(T) ? size_ : sizeof(T);
    std::memcpy(&value, data_, count);
    data_ += count;
    size_ -= count;
    return value;
  }
  // Half the time one of the usual values, else any bits.
  float TakeFloat(float usual) {
    const uint8_t choice = Take<uint8_t>();
    return choice & 1 ? Take<float>() : usual * static_cast<float>(choice >> 1);
  }
  size_t left() const { return size_; }

 private:
  const uint8_t* data_;
  size_t size_;
};

SamplingOptions TakeOptions(Input& input) {
  SamplingOptions options;
  options.temperature = input.TakeFloat(0.1f);
  options.top_k = input.Take<int8_t>();
  options.top_p = input.TakeFloat(0.01f);
  options.min_p = input.TakeFloat(0.01f);
  options.repeat_penalty = input.TakeFloat(0.1f);
  options.presence_penalty = input.TakeFloat(0.1f);
  options.frequency_penalty = input.TakeFloat(0.1f);
  options.penalty_last_n = input.Take<int8_t>();
  options.seed = input.Take<uint64_t>();
  return options;
}

std::vector<float> TakeLogits(Input& input) {
  std::vector<float> logits;
  const bool whole_bits = input.Take<uint8_t>() & 1;
  while (input.left() >= 4) {
    logits.push_back(whole_bits ? input.Take<float>()
                                : static_cast<float>(input.Take<int8_t>()) / 8);
  }
  // Enough of them to leave the small paths.
  const size_t count = logits.size();
  if (count > 0 && !whole_bits) {
    for (size_t i = count; i < 1000; ++i) logits.push_back(logits[i % count] * 0.75f);
  }
  return logits;
}

void CheckCandidates(std::span<const Candidate> candidates, size_t vocabulary_size) {
  CHECK(!candidates.empty());
  std::vector<bool> seen(vocabulary_size);
  double largest = 0;
  for (const Candidate& candidate : candidates) {
    CHECK(candidate.id >= 0 && static_cast<size_t>(candidate.id) < vocabulary_size);
    CHECK(!seen[static_cast<size_t>(candidate.id)]);
    seen[static_cast<size_t>(candidate.id)] = true;
    CHECK(std::isfinite(candidate.logit) && candidate.weight >= 0 && candidate.weight <= 1);
    largest = std::fmax(largest, candidate.weight);
  }
  CHECK(largest == 1.0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  const SamplingOptions options = TakeOptions(input);
  if (!CheckSamplingOptions(options).ok()) return 0;
  std::vector<LogitBias> biases(input.Take<uint8_t>() % 4);
  for (LogitBias& bias : biases) bias = {input.Take<int8_t>(), input.TakeFloat(-1.0f)};
  std::vector<TokenId> history(input.Take<uint8_t>() % 16);
  for (TokenId& id : history) id = input.Take<int8_t>();
  const uint64_t token_index = input.Take<uint8_t>();
  const std::vector<float> logits = TakeLogits(input);

  Sampler sampler(options, biases);
  const auto first = sampler.Sample(logits, history, token_index);
  const auto candidates = sampler.Distribution(logits, history);
  CHECK(first.ok() == candidates.ok());
  (void)TopLogprobs(logits, 7);
  if (!first.ok()) {
    CHECK(!first.error().message.empty() && first.error().code != ErrorCode::kInternal);
    return 0;
  }
  CheckCandidates(*candidates, logits.size());
  bool found = false;
  for (const Candidate& candidate : *candidates) {
    found |= candidate.id == *first && candidate.weight > 0;
  }
  CHECK(found);
  CHECK(*Sampler(options, biases).Sample(logits, history, token_index) == *first);
  SamplingOptions greedy = options;
  greedy.temperature = 0;
  const TokenId best = *Sampler(greedy, biases).Sample(logits, history, token_index);
  bool has_best = false;
  for (const Candidate& candidate : *candidates) has_best |= candidate.id == best;
  CHECK(has_best);
  return 0;
}
