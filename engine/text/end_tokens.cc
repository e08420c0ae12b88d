// Which tokens play a part by their text alone, and which of them end a generation.
// The lists and the order of the corrections are those of llama.cpp (llama-vocab.cpp,
// llama_vocab::impl::load): converters leave ids out and mark end tokens as normal ones.
#include <algorithm>

#include "text/vocabulary.h"

namespace nonstop {
namespace {

struct RoleText {
  SpecialRole role;
  std::string_view text;
};

// Where a vocabulary has several texts for one role the first of this list is taken.
constexpr RoleText kRoleTexts[] = {
    {SpecialRole::kEndOfTurn, "<|eot_id|>"},
    {SpecialRole::kEndOfTurn, "<|im_end|>"},
    {SpecialRole::kEndOfTurn, "<|end|>"},
    {SpecialRole::kEndOfTurn, "<end_of_turn>"},
    {SpecialRole::kEndOfTurn, "<|endoftext|>"},
    {SpecialRole::kEndOfTurn, "<|end_of_text|>"},
    {SpecialRole::kEndOfTurn, "<EOT>"},
    {SpecialRole::kEndOfTurn, "_<EOT>"},
    {SpecialRole::kEndOfTurn, "[EOT]"},
    {SpecialRole::kEndOfTurn, "<｜end▁of▁sentence｜>"},
    {SpecialRole::kEndOfTurn, "<end_of_utterance>"},
    {SpecialRole::kEndOfMessage, "<|eom_id|>"},
    {SpecialRole::kFimPrefix, "<|fim_prefix|>"},
    {SpecialRole::kFimPrefix, "<fim-prefix>"},
    {SpecialRole::kFimPrefix, "<fim_prefix>"},
    {SpecialRole::kFimPrefix, "<｜fim▁begin｜>"},
    {SpecialRole::kFimPrefix, "<PRE>"},
    {SpecialRole::kFimPrefix, "▁<PRE>"},
    {SpecialRole::kFimPrefix, "<|code_prefix|>"},
    {SpecialRole::kFimPrefix, "<|prefix|>"},
    {SpecialRole::kFimSuffix, "<|fim_suffix|>"},
    {SpecialRole::kFimSuffix, "<fim-suffix>"},
    {SpecialRole::kFimSuffix, "<fim_suffix>"},
    {SpecialRole::kFimSuffix, "<｜fim▁hole｜>"},
    {SpecialRole::kFimSuffix, "<SUF>"},
    {SpecialRole::kFimSuffix, "▁<SUF>"},
    {SpecialRole::kFimSuffix, "<|code_suffix|>"},
    {SpecialRole::kFimSuffix, "<|suffix|>"},
    {SpecialRole::kFimMiddle, "<|fim_middle|>"},
    {SpecialRole::kFimMiddle, "<fim-middle>"},
    {SpecialRole::kFimMiddle, "<fim_middle>"},
    {SpecialRole::kFimMiddle, "<｜fim▁end｜>"},
    {SpecialRole::kFimMiddle, "<MID>"},
    {SpecialRole::kFimMiddle, "▁<MID>"},
    {SpecialRole::kFimMiddle, "<|code_middle|>"},
    {SpecialRole::kFimMiddle, "<|middle|>"},
    {SpecialRole::kFimPad, "<|fim_pad|>"},
    {SpecialRole::kFimPad, "<fim-pad>"},
    {SpecialRole::kFimPad, "<fim_pad>"},
    {SpecialRole::kFimPad, "<PAD>"},
    {SpecialRole::kFimPad, "[PAD]"},
    {SpecialRole::kFimRepository, "<|fim_repo|>"},
    {SpecialRole::kFimRepository, "<|repo_name|>"},
    {SpecialRole::kFimRepository, "<fim-repo>"},
    {SpecialRole::kFimRepository, "<REPO>"},
    {SpecialRole::kFimRepository, "<reponame>"},
    {SpecialRole::kFimSeparator, "<|file_sep|>"},
};

constexpr std::string_view kEndTexts[] = {
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "<｜end▁of▁sentence｜>",
    "[e~[",
};

// Harmony's channel markers are always rendered.
constexpr std::string_view kRenderedTexts[] = {
    "<|channel|>",
    "<|message|>",
    "<|start|>",
    "<|constrain|>",
};

constexpr SpecialRole kEndRoles[] = {
    SpecialRole::kFimPad, SpecialRole::kFimRepository, SpecialRole::kFimSeparator,
    SpecialRole::kEos,    SpecialRole::kEndOfTurn,     SpecialRole::kEndOfMessage,
};

// `part` is in lower case.
bool ContainsIgnoringCase(std::string_view text, std::string_view part) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  for (size_t i = 0; i + part.size() <= text.size(); ++i) {
    size_t length = 0;
    while (length < part.size() && lower(text[i + length]) == part[length]) ++length;
    if (length == part.size()) return true;
  }
  return false;
}

}  // namespace

void Vocabulary::FindRolesByText() {
  for (const auto& [role, text] : kRoleTexts) {
    TokenId& special_id = special_ids_[static_cast<size_t>(role)];
    if (special_id != kNoToken) continue;
    special_id = Find(text);
    if (special_id != kNoToken)
      attributes_[static_cast<size_t>(special_id)] |= TokenAttribute::kControl;
  }
}

void Vocabulary::AddEnd(TokenId id) {
  const auto place = std::lower_bound(end_tokens_.begin(), end_tokens_.end(), id);
  if (place == end_tokens_.end() || *place != id) end_tokens_.insert(place, id);
}

void Vocabulary::CollectEndTokens() {
  for (const std::string_view text : kEndTexts) {
    const TokenId id = Find(text);
    if (id == kNoToken) continue;
    AddEnd(id);
    attributes_[static_cast<size_t>(id)] |= TokenAttribute::kControl;
  }
  for (const std::string_view text : kRenderedTexts) {
    const TokenId id = Find(text);
    if (id != kNoToken) attributes_[static_cast<size_t>(id)] = TokenAttribute::kUserDefined;
  }
  for (const SpecialRole role : kEndRoles) {
    if (special(role) != kNoToken) AddEnd(special(role));
  }
  DropFalseEnds();
}

// Two families have a well-known end text as an ordinary part of the reply.
void Vocabulary::DropFalseEnds() {
  const auto ends = [&](std::string_view text) {
    const TokenId id = Find(text);
    return id != kNoToken && IsEnd(id);
  };
  const auto drop = [&](std::string_view text, uint8_t attributes) {
    std::erase(end_tokens_, Find(text));
    attributes_[static_cast<size_t>(Find(text))] = attributes;
  };
  const bool calls = ends("<|call|>") || ends("<|calls|>");
  if (ends("<|end|>") && calls && (ends("<|return|>") || ends("<|flush|>"))) {
    drop("<|end|>", TokenAttribute::kUserDefined);
  }
  if (ends("</s>") && (ends("<|tool_response>") || ends("<|plamo:eos|>"))) {
    drop("</s>", TokenAttribute::kNormal);
  }
}

void Vocabulary::ApplyPhi3Stripping(std::string_view general_name) {
  if (!ContainsIgnoringCase(general_name, "phi-3") && !ContainsIgnoringCase(general_name, "phi3")) {
    return;
  }
  constexpr uint8_t kParsed = TokenAttribute::kSpecial | TokenAttribute::kUserDefined;
  for (TokenId id = 0; id < static_cast<TokenId>(size()); ++id) {
    const std::string_view text = this->text(id);
    const bool is_exempt = text == "<unk>" || text == "<s>" || text == "<|endoftext|>";
    if (Has(id, kParsed) && !is_exempt) {
      attributes_[static_cast<size_t>(id)] |= TokenAttribute::kStripRight;
    }
  }
}

}  // namespace nonstop
