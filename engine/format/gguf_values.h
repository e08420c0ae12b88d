// The value types of GGUF metadata: names, sizes, conversions to C++ numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "format/gguf.h"

namespace nonstop {

// "u32", "string", ...; "unknown" for an id that GGUF does not define.
const char* GgufTypeName(GgufType type);
bool IsGgufType(uint32_t type_id);

// Bytes of one value of a type with a fixed size; 0 for strings and arrays.
uint32_t GgufTypeSizeBytes(GgufType type);

// The number at `bytes`; nullopt if `type` is no integer or the number does not fit.
std::optional<uint64_t> ReadUint(GgufType type, const std::byte* bytes);
std::optional<int64_t> ReadInt(GgufType type, const std::byte* bytes);
// Of a float or integer type.
std::optional<double> ReadNumber(GgufType type, const std::byte* bytes);

}  // namespace nonstop
