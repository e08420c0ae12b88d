// The tensor table of a GGUF header: one entry's fields, and the checks over the whole table.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "format/byte_cursor.h"
#include "format/gguf.h"

namespace nonstop {

// Reads one entry; its offset is still relative to the tensor data. nullopt: the entry has not come
// whole yet (the cursor is then anywhere inside it).
Result<std::optional<GgufTensor>> ReadTensorEntry(ByteCursor& cursor, uint64_t index,
                                                  uint64_t alignment, const GgufLimits& limits);

// Makes offsets relative to the file, sorts the tensors by them, and checks the tensors against
// each other: no two of one name, none overlapping. Returns indices in ascending order of names.
Result<std::vector<uint32_t>> FinishTensorTable(uint64_t data_offset_bytes,
                                                std::vector<GgufTensor>& tensors);

// kTruncated, with the tensor's name, if the file ends before the tensor does.
Status CheckTensorEnd(const GgufTensor& tensor, uint64_t file_size_bytes);

struct NameOrder {
  std::vector<uint32_t> indices;      // ascending by name, then by index
  std::optional<uint32_t> duplicate;  // the index of a name that an earlier one equals
};
NameOrder SortByName(std::span<const std::string_view> names);

}  // namespace nonstop
