#include "abi/event_buffer.h"

#include <cstring>

#include "abi/abi.h"
#include "base/bytes.h"

namespace nonstop::abi {
namespace {

uint32_t RecordSize(size_t struct_bytes, size_t extra_bytes) {
  return static_cast<uint32_t>(RoundUp<size_t>(struct_bytes + extra_bytes, 8));
}

}  // namespace

std::byte* EventBuffer::Append(size_t struct_bytes, size_t extra_bytes) {
  const size_t begin = bytes_.size();
  bytes_.resize(begin + RecordSize(struct_bytes, extra_bytes));
  return bytes_.data() + begin;
}

void EventBuffer::OnToken(const TokenOutput& output) {
  const size_t top_bytes = output.top.size() * sizeof(NsTopEntry);
  const size_t extra_bytes = top_bytes + output.text.size();
  const NsTokenEvent event = {
      .type = static_cast<uint32_t>(NsEventType::kToken),
      .size_bytes = RecordSize(sizeof(NsTokenEvent), extra_bytes),
      .request_id = output.request_id,
      .token_id = output.token,
      .index = output.index,
      .top_count = static_cast<uint32_t>(output.top.size()),
      .text_size_bytes = static_cast<uint32_t>(output.text.size()),
      .is_end = output.is_end ? 1u : 0u,
  };
  std::byte* out = Append(sizeof(event), extra_bytes);
  StoreLe(out, event);
  out += sizeof(event);
  for (const TokenProbability& top : output.top) {
    StoreLe(out, NsTopEntry{top.id, top.logit, top.logprob});
    out += sizeof(NsTopEntry);
  }
  std::memcpy(out, output.text.data(), output.text.size());
}

void EventBuffer::OnFinish(const FinishOutput& output) {
  const NsFinishEvent event = {
      .type = static_cast<uint32_t>(NsEventType::kFinish),
      .size_bytes = RecordSize(sizeof(NsFinishEvent), output.text.size()),
      .request_id = output.request_id,
      .reason = static_cast<uint32_t>(output.reason),
      .prompt_count = output.prompt_count,
      .cached_count = output.cached_count,
      .generated_count = output.generated_count,
      .text_size_bytes = static_cast<uint32_t>(output.text.size()),
      .prefill_us = output.prefill_us,
      .first_token_us = output.first_token_us,
      .decode_us = output.decode_us,
  };
  std::byte* out = Append(sizeof(event), output.text.size());
  StoreLe(out, event);
  std::memcpy(out + sizeof(event), output.text.data(), output.text.size());
}

void EventBuffer::OnError(uint32_t request_id, const Error& error) {
  const NsErrorEvent event = {
      .type = static_cast<uint32_t>(NsEventType::kError),
      .size_bytes = RecordSize(sizeof(NsErrorEvent), error.message.size()),
      .request_id = request_id,
      .code = static_cast<uint32_t>(error.code),
      .message_size_bytes = static_cast<uint32_t>(error.message.size()),
      .reserved = 0,
  };
  std::byte* out = Append(sizeof(event), error.message.size());
  StoreLe(out, event);
  std::memcpy(out + sizeof(event), error.message.data(), error.message.size());
}

void EventBuffer::OnPrefillProgress(uint32_t request_id, uint32_t done_count,
                                    uint32_t total_count) {
  const NsPrefillProgressEvent event = {
      .type = static_cast<uint32_t>(NsEventType::kPrefillProgress),
      .size_bytes = sizeof(NsPrefillProgressEvent),
      .request_id = request_id,
      .done_count = done_count,
      .total_count = total_count,
      .reserved = 0,
  };
  StoreLe(Append(sizeof(event), 0), event);
}

}  // namespace nonstop::abi
