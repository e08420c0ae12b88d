// One row per value type; the conversions derive from the type alone.
#include "format/gguf_values.h"

#include <iterator>

#include "base/bytes.h"

namespace nonstop {
namespace {

struct TypeRow {
  const char* name;
  uint32_t size_bytes;
};

// Indexed by type id. Source: enum gguf_metadata_value_type in docs/gguf.md.
constexpr TypeRow kTypes[] = {
    {"u8", 1},   {"i8", 1},     {"u16", 2},   {"i16", 2}, {"u32", 4}, {"i32", 4}, {"f32", 4},
    {"bool", 1}, {"string", 0}, {"array", 0}, {"u64", 8}, {"i64", 8}, {"f64", 8},
};

}  // namespace

bool IsGgufType(uint32_t type_id) { return type_id < std::size(kTypes); }

const char* GgufTypeName(GgufType type) {
  const auto id = static_cast<uint32_t>(type);
  return IsGgufType(id) ? kTypes[id].name : "unknown";
}

uint32_t GgufTypeSizeBytes(GgufType type) {
  const auto id = static_cast<uint32_t>(type);
  return IsGgufType(id) ? kTypes[id].size_bytes : 0;
}

std::optional<int64_t> ReadInt(GgufType type, const std::byte* bytes) {
  switch (type) {
    case GgufType::kU8:
      return LoadLe<uint8_t>(bytes);
    case GgufType::kI8:
      return LoadLe<int8_t>(bytes);
    case GgufType::kU16:
      return LoadLe<uint16_t>(bytes);
    case GgufType::kI16:
      return LoadLe<int16_t>(bytes);
    case GgufType::kU32:
      return LoadLe<uint32_t>(bytes);
    case GgufType::kI32:
      return LoadLe<int32_t>(bytes);
    case GgufType::kI64:
      return LoadLe<int64_t>(bytes);
    case GgufType::kU64: {
      const auto value = LoadLe<uint64_t>(bytes);
      if (value > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
      return static_cast<int64_t>(value);
    }
    default:
      return std::nullopt;
  }
}

std::optional<uint64_t> ReadUint(GgufType type, const std::byte* bytes) {
  if (type == GgufType::kU64) return LoadLe<uint64_t>(bytes);
  const std::optional<int64_t> value = ReadInt(type, bytes);
  if (!value || *value < 0) return std::nullopt;
  return static_cast<uint64_t>(*value);
}

std::optional<double> ReadNumber(GgufType type, const std::byte* bytes) {
  if (type == GgufType::kF32) return LoadLe<float>(bytes);
  if (type == GgufType::kF64) return LoadLe<double>(bytes);
  if (type == GgufType::kU64) return static_cast<double>(LoadLe<uint64_t>(bytes));
  const std::optional<int64_t> value = ReadInt(type, bytes);
  if (!value) return std::nullopt;
  return static_cast<double>(*value);
}

}  // namespace nonstop
