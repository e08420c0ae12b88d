#include "model/weights.h"

#include <algorithm>

#include "base/format.h"
#include "tensor/dequantize.h"
#include "tensor/finite.h"

namespace nonstop {
namespace {

constexpr uint32_t kGroupRows = 8;

bool IsVector(const GgufTensor& tensor) { return tensor.dimension_count <= 1; }

uint64_t PackedSizeBytes(const cpu::Matrix& matrix) {
  return cpu::PackedSizeBytes(matrix.format, matrix.dtype, matrix.row_count, matrix.column_count);
}

// What the heap needs for one more buffer of `size_bytes`.
uint64_t OnHeap(uint64_t size_bytes) { return size_bytes + 3 * AlignedBuffer::kAlignment; }

}  // namespace

Status WeightStore::Push(const TensorPiece& piece) {
  if (expected_size_bytes_ > options_.limit_bytes) {
    return MakeError(ErrorCode::kOutOfMemory,
                     "The weights need (%llu) bytes, more than the engine can address (%llu).",
                     static_cast<unsigned long long>(expected_size_bytes_),
                     static_cast<unsigned long long>(options_.limit_bytes));
  }
  if (piece.offset_bytes == 0) {
    Status status = Begin(*piece.tensor);
    if (!status.ok()) {
      return std::move(status).error().With(Format("Tensor \"%s\"", piece.tensor->name.c_str()));
    }
  }
  CHECK(tensor_ == piece.tensor);
  TRY(PushRows(piece.bytes));
  if (piece.offset_bytes + piece.bytes.size() == tensor_->size_bytes) return End();
  return {};
}

Status WeightStore::Begin(const GgufTensor& tensor) {
  tensor_ = &tensor;
  open_ = nullptr;
  packed_row_count_ = 0;
  pending_.clear();
  ASSIGN_OR_RETURN(const cpu::Matrix matrix, Describe(tensor));
  if (IsVector(tensor)) return {};
  auto stored = std::make_unique<StoredMatrix>();
  stored->name = tensor.name;
  stored->matrix = matrix;
  const uint64_t size_bytes = PackedSizeBytes(matrix);
  ASSIGN_OR_RETURN(stored->storage, AlignedBuffer::CreateUninitialized(size_bytes));
  stored->matrix.data = stored->storage.data();
  size_bytes_ += size_bytes;
  open_ = stored.get();
  matrices_.push_back(std::move(stored));
  return {};
}

Result<cpu::Matrix> WeightStore::Describe(const GgufTensor& tensor) const {
  if (!GetDType(tensor.dtype).is_computed) {
    return MakeError(ErrorCode::kUnsupportedType, "Type (%s) is not computed with.",
                     GetDType(tensor.dtype).name);
  }
  if (tensor.row_count() > UINT32_MAX || tensor.column_count() > UINT32_MAX) {
    return MakeError(ErrorCode::kWrongShape, "Shape (%llu, %llu) is too large.",
                     static_cast<unsigned long long>(tensor.column_count()),
                     static_cast<unsigned long long>(tensor.row_count()));
  }
  cpu::Matrix matrix;
  matrix.dtype = tensor.dtype;
  matrix.row_count = static_cast<uint32_t>(tensor.row_count());
  matrix.column_count = static_cast<uint32_t>(tensor.column_count());
  matrix.format = options_.keeps_raw ? cpu::PackedFormat::kRaw : cpu::PackedFormat::kInterleaved8;
  return matrix;
}

void WeightStore::ReserveMemory(std::span<const GgufTensor> tensors) {
  for (const GgufTensor& tensor : tensors) {
    const Result<cpu::Matrix> matrix = Describe(tensor);
    if (!matrix.ok()) return;  // Push will say so
    expected_size_bytes_ +=
        OnHeap(IsVector(tensor) ? matrix->column_count * sizeof(float) : PackedSizeBytes(*matrix));
  }
  if (expected_size_bytes_ <= size_bytes_ || expected_size_bytes_ > options_.limit_bytes) return;
  // Freed at once: the heap keeps what it has grown by.
  (void)AlignedBuffer::CreateUninitialized(expected_size_bytes_ - size_bytes_);
}

Status WeightStore::PushRows(std::span<const std::byte> bytes) {
  const uint64_t row_bytes = RowSizeBytes(tensor_->dtype, tensor_->column_count());
  const uint64_t group_bytes = row_bytes * kGroupRows;
  if (open_ == nullptr) {  // a vector: small, whole at its end
    pending_.insert(pending_.end(), bytes.begin(), bytes.end());
    return {};
  }
  if (!pending_.empty()) {
    const size_t take = std::min<size_t>(bytes.size(), group_bytes - pending_.size());
    pending_.insert(pending_.end(), bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(take));
    bytes = bytes.subspan(take);
    if (pending_.size() < group_bytes) return {};
    TRY(PackWhole(pending_, kGroupRows));
    pending_.clear();
  }
  const auto group_count = static_cast<uint32_t>(bytes.size() / group_bytes);
  if (group_count > 0)
    TRY(PackWhole(bytes.first(group_count * group_bytes), group_count * kGroupRows));
  bytes = bytes.subspan(group_count * group_bytes);
  pending_.insert(pending_.end(), bytes.begin(), bytes.end());
  return {};
}

Status WeightStore::PackWhole(std::span<const std::byte> rows, uint32_t row_count) {
  TRY(CheckFinite(rows));
  const cpu::Matrix& matrix = open_->matrix;
  cpu::PackRows(matrix.format, matrix.dtype, rows.data(), packed_row_count_, row_count,
                matrix.column_count, open_->storage.data());
  packed_row_count_ += row_count;
  return {};
}

Status WeightStore::CheckFinite(std::span<const std::byte> bytes) const {
  const DTypeInfo& info = GetDType(tensor_->dtype);
  const int64_t bad =
      FindNonFinite(tensor_->dtype, bytes.data(), bytes.size() / info.block_size_bytes);
  if (bad < 0) return {};
  return MakeError(ErrorCode::kBadWeights,
                   "Tensor \"%s\" holds NaN or infinity (row %llu of type %s).",
                   tensor_->name.c_str(),
                   static_cast<unsigned long long>(packed_row_count_ + static_cast<uint64_t>(bad) *
                                                                           info.block_length /
                                                                           tensor_->column_count()),
                   info.name);
}

Status WeightStore::End() {
  if (open_ == nullptr) {
    TRY(CheckFinite(pending_));
    std::vector<float> values(static_cast<size_t>(tensor_->column_count()));
    DequantizeRow(tensor_->dtype, pending_.data(), static_cast<uint32_t>(values.size()),
                  values.data());
    size_bytes_ += values.size() * sizeof(float);
    vectors_.emplace_back(tensor_->name, std::move(values));
  } else {
    const uint32_t left = open_->matrix.row_count - packed_row_count_;
    if (left > 0) TRY(PackWhole(pending_, left));
    open_->is_complete = true;
  }
  tensor_ = nullptr;
  open_ = nullptr;
  pending_ = {};
  return {};
}

const cpu::Matrix* WeightStore::FindMatrix(std::string_view name) const {
  for (const auto& stored : matrices_) {
    if (stored->name == name) return stored->is_complete ? &stored->matrix : nullptr;
  }
  return nullptr;
}

const std::vector<float>* WeightStore::FindVector(std::string_view name) const {
  for (const auto& [stored_name, values] : vectors_) {
    if (stored_name == name) return &values;
  }
  return nullptr;
}

}  // namespace nonstop
