#include "text/pre_tokenizer.h"

#include <utility>

namespace nonstop {
namespace {

constexpr SplitStage kGpt2[] = {SplitGpt2};
constexpr SplitStage kSmolLm[] = {SplitEachNumber, SplitGpt2};
constexpr SplitStage kLlama3[] = {SplitLlama3};
constexpr SplitStage kQwen2[] = {SplitQwen2};
constexpr SplitStage kTekken[] = {SplitTekken};
constexpr SplitStage kDeepSeekLlm[] = {SplitEachNewline,   SplitDeepSeekLetters, SplitDeepSeekSigns,
                                       SplitTrailingSpace, SplitDeepSeekCjk,     SplitNumberRuns};
constexpr SplitStage kDefault[] = {SplitSigns, SplitGpt2, SplitNumberRuns, SplitThreeDigits};

// Names that llama.cpp treats alike share their stages. Embedding models' names are left out.
constexpr PreTokenizer kPreTokenizers[] = {
    // name, stages, ignores_merges, adds_bos, has_default_bos
    {"", kDefault, false, false, true},
    {"default", kDefault, false, false, true},
    {"gpt-2", kGpt2, false, false, true},
    {"phi-2", kGpt2, false, false, true},
    {"gigachat", kGpt2, false, false, true},
    {"a.x-4.0", kGpt2, false, false, true},
    {"mellum", kGpt2, false, false, true},
    {"exaone4", kGpt2, false, false, true},
    {"mpt", kGpt2, false, false, true},
    {"olmo", kGpt2, false, false, true},
    {"jais", kGpt2, false, false, true},
    {"trillion", kGpt2, false, false, true},
    {"granite-docling", kGpt2, false, false, true},
    {"smollm", kSmolLm, false, false, true},
    {"starcoder", kSmolLm, false, false, true},
    {"refact", kSmolLm, false, false, true},
    {"command-r", kSmolLm, false, false, true},
    {"codeshell", kSmolLm, false, false, true},
    {"exaone", kSmolLm, false, false, true},
    {"minerva-7b", kSmolLm, false, false, true},
    {"mellum2", kSmolLm, false, false, true},
    {"llama-bpe", kLlama3, true, true, true},
    {"llama3", kLlama3, true, true, true},
    {"llama-v3", kLlama3, true, true, true},
    {"falcon3", kLlama3, true, true, true},
    {"falcon-h1", kLlama3, true, true, true},
    {"pixtral", kLlama3, true, true, true},
    {"midm-2.0", kLlama3, true, true, true},
    {"lfm2", kLlama3, true, true, true},
    {"dbrx", kLlama3, false, false, true},
    {"smaug-bpe", kLlama3, false, false, true},
    {"chatglm-bpe", kLlama3, false, false, false},
    {"glm4", kLlama3, true, false, false},
    {"glm5", kLlama3, true, false, false},
    {"qwen2", kQwen2, false, false, true},
    {"deepseek-r1-qwen", kQwen2, false, false, true},
    {"kormo", kQwen2, false, false, true},
    {"f2llmv2", kQwen2, false, false, true},
    {"megrez", kQwen2, false, false, true},
    {"stablelm2", kQwen2, false, false, true},
    {"hunyuan", kQwen2, false, false, true},
    {"solar-open", kQwen2, false, false, true},
    {"grok-2", kQwen2, false, false, true},
    {"deepseek-llm", kDeepSeekLlm, false, false, true},
    {"tekken", kTekken, true, true, true},
};

}  // namespace

[[gnu::noinline]] void AppendEnd(uint32_t end, std::vector<uint32_t>* ends) {
  ends->push_back(end);
}

const PreTokenizer* FindPreTokenizer(std::string_view name) {
  for (const PreTokenizer& pre_tokenizer : kPreTokenizers) {
    if (pre_tokenizer.name == name) return &pre_tokenizer;
  }
  return nullptr;
}

std::vector<ClassifiedCodePoint> Classify(std::string_view text) {
  std::vector<ClassifiedCodePoint> code_points;
  code_points.reserve(text.size());
  size_t offset = 0;
  while (offset < text.size()) code_points.emplace_back(NextCodePoint(text, &offset));
  return code_points;
}

std::vector<uint32_t> SplitWords(const PreTokenizer& pre_tokenizer, CodePoints text) {
  std::vector<uint32_t> ends;
  if (text.empty()) return ends;
  ends.push_back(static_cast<uint32_t>(text.size()));
  std::vector<uint32_t> finer;
  for (const SplitStage stage : pre_tokenizer.stages) {
    finer.clear();
    uint32_t begin = 0;
    for (const uint32_t end : ends) {
      stage(text, begin, end, &finer);
      begin = end;
    }
    std::swap(ends, finer);
  }
  return ends;
}

}  // namespace nonstop
