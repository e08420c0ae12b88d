// Rows of the KV cache as both attention kernels read them, over a vector target S.
// f16 is converted in registers without its exponent's correction (2^112): what meets it carries
// half of that, the result the other half.
#pragma once

#include "cpu/generic/quant_take.h"
#include "cpu/ops.h"

namespace nonstop::cpu {

// Eight neighbouring elements of a K or V row.
template <class S>
struct KvRowF16 {
  static constexpr uint32_t kSizeBytes = 2;
  static constexpr float kFactor = 0x1p56f;
  static FloatPair<S> Load(const std::byte* at) { return LoadSmallHalves8<S>(at); }
};
template <class S>
struct KvRowF32 {
  static constexpr uint32_t kSizeBytes = 4;
  static constexpr float kFactor = 1.0f;
  static FloatPair<S> Load(const std::byte* at) { return LoadFloats8<S>(at); }
};

// The K or V row of `token`; the rows of a page follow each other.
template <class Row>
const std::byte* KvRowOf(const AttentionArgs& args, uint64_t offset_bytes, uint32_t token) {
  return args.pages[token / kKvPageTokenCount] + offset_bytes +
         size_t{token % kKvPageTokenCount} * args.head_dim * Row::kSizeBytes;
}

// Cached tokens that are taken at once: their rows stay in the first-level cache. Tiles begin at
// multiples of it, so they do not cross pages.
inline constexpr uint32_t kKvTileTokens = 64;
static_assert(kKvPageTokenCount % kKvTileTokens == 0);

}  // namespace nonstop::cpu
