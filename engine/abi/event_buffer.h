// Results as records in linear memory (abi.h), in the order in which they came about. The host
// reads them after each pump and clears.
#pragma once

#include <vector>

#include "session/request.h"

namespace nonstop::abi {

class EventBuffer final : public RequestSink {
 public:
  void OnToken(const TokenOutput& output) override;
  void OnFinish(const FinishOutput& output) override;
  void OnError(uint32_t request_id, const Error& error) override;
  void OnPrefillProgress(uint32_t request_id, uint32_t done_count, uint32_t total_count) override;

  const std::vector<std::byte>& bytes() const { return bytes_; }
  void Clear() { bytes_.clear(); }

 private:
  // Room for a record of `struct_bytes` and `extra_bytes`, zero-padded to a multiple of 8.
  std::byte* Append(size_t struct_bytes, size_t extra_bytes);

  std::vector<std::byte> bytes_;
};

}  // namespace nonstop::abi
