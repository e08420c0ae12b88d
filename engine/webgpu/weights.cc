#include "webgpu/weights.h"

#include <algorithm>
#include <cstring>

#include "base/bytes.h"
#include "base/check.h"
#include "base/format.h"
#include "tensor/dequantize.h"
#include "tensor/finite.h"
#include "webgpu/weight_layout.h"

namespace nonstop {
namespace {

constexpr uint64_t kParamsBytes = 256;
constexpr uint32_t kWorkgroupsInX = 32'768;

bool IsVector(const GgufTensor& tensor) { return tensor.dimension_count <= 1; }

constexpr uint64_t kFirstWindowBytes = 1u << 20;

uint64_t PackedSizeBytes(const GgufTensor& tensor) {
  return GpuMatrixSizeBytes(tensor.dtype, static_cast<uint32_t>(tensor.row_count()),
                            static_cast<uint32_t>(tensor.column_count()));
}

Status CheckTensor(const GgufTensor& tensor) {
  if (!GetDType(tensor.dtype).is_computed) {
    return MakeError(ErrorCode::kUnsupportedType, "Type (%s) is not computed with.",
                     GetDType(tensor.dtype).name);
  }
  // Row groups must be countable in bytes of 32 bits, on both sides of the pack kernel.
  const uint64_t group_bytes = kGpuGroupRows * RowSizeBytes(tensor.dtype, tensor.column_count());
  if (tensor.row_count() > INT32_MAX || group_bytes > INT32_MAX / 2) {
    return MakeError(ErrorCode::kWrongShape, "Shape (%llu, %llu) is too large.",
                     static_cast<unsigned long long>(tensor.column_count()),
                     static_cast<unsigned long long>(tensor.row_count()));
  }
  return {};
}

}  // namespace

GpuMatrix SliceRows(const GpuMatrix& matrix, uint32_t row_begin, uint32_t row_count) {
  CHECK(row_begin % kGpuGroupRows == 0 && row_begin + row_count <= matrix.row_count);
  GpuMatrix slice = {matrix.dtype, row_count, matrix.column_count, {}};
  const uint32_t group_vec4s = GpuGroupSizeBytes(matrix.dtype, matrix.column_count) / 16;
  for (const GpuMatrixPart& part : matrix.parts) {
    const uint32_t begin = std::max(row_begin, part.row_begin);
    const uint32_t end = std::min(row_begin + row_count, part.row_begin + part.row_count);
    if (begin >= end) continue;
    const uint32_t groups = (begin - part.row_begin) / kGpuGroupRows;
    slice.parts.push_back(
        {part.window, part.base + groups * group_vec4s, begin - row_begin, end - begin});
  }
  return slice;
}

GpuWeights::~GpuWeights() {
  for (const Window& window : windows_) gpu_.DestroyBuffer(window.buffer);
  for (const Staging& staging : free_staging_) gpu_.DestroyBuffer(staging.buffer);
  for (const Chunk& chunk : waiting_) gpu_.DestroyBuffer(chunk.staging.buffer);
  if (chunk_) gpu_.DestroyBuffer(chunk_->staging.buffer);
  if (params_buffer_) gpu_.DestroyBuffer(*params_buffer_);
  if (has_vectors_buffer_) gpu_.DestroyBuffer(vectors_buffer_);
}

void GpuWeights::ReserveMemory(std::span<const GgufTensor> tensors) {
  for (const GgufTensor& tensor : tensors) {
    if (IsVector(tensor) || !CheckTensor(tensor).ok()) continue;  // Push will say so
    expected_bytes_ += PackedSizeBytes(tensor);
    (void)PipelineFor(tensor.dtype);
  }
}

Status GpuWeights::Push(const TensorPiece& piece) {
  ASSIGN_OR_RETURN([[maybe_unused]] const bool is_done, PackPending());
  if (piece.offset_bytes == 0) {
    Status status = Begin(*piece.tensor);
    if (!status.ok()) {
      return std::move(status).error().With(Format("Tensor \"%s\"", piece.tensor->name.c_str()));
    }
  }
  CHECK(tensor_ == piece.tensor);
  if (IsVector(*tensor_)) {
    pending_.insert(pending_.end(), piece.bytes.begin(), piece.bytes.end());
  } else {
    TRY(CheckFinite(piece.bytes));
    TRY(PushRows(piece.bytes));
  }
  if (piece.offset_bytes + piece.bytes.size() == tensor_->size_bytes) return End();
  return {};
}

Status GpuWeights::Begin(const GgufTensor& tensor) {
  tensor_ = &tensor;
  pending_.clear();
  checked_blocks_ = 0;
  packed_rows_ = 0;
  part_ = 0;
  TRY(CheckTensor(tensor));
  if (IsVector(tensor)) return {};
  ASSIGN_OR_RETURN(GpuMatrix matrix, Place(tensor));
  matrices_.push_back({.name = tensor.name, .matrix = std::move(matrix)});
  return {};
}

uint64_t GpuWeights::WindowLimitBytes() const {
  const GpuLimits& limits = gpu_.adapter().limits;
  return std::min(limits.max_storage_binding_size_bytes, limits.max_buffer_size_bytes);
}

// A window of what is still expected, so that the last one is not larger than it need be. What
// comes with the header comes before that is known: few windows then too, or kernels that bind many
// have none to spare.
Status GpuWeights::OpenWindow(uint64_t wanted_bytes) {
  uint64_t left = expected_bytes_ > size_bytes_ ? expected_bytes_ - size_bytes_ : 0;
  if (expected_bytes_ == 0) left = kFirstWindowBytes;
  const uint64_t size = std::max(wanted_bytes, std::min(left, WindowLimitBytes()));
  ASSIGN_OR_RETURN(const GpuBufferId buffer, gpu_.CreateBuffer(GpuBufferUsage::kWeights, size));
  windows_.push_back({buffer, size, 0});
  return {};
}

Result<GpuMatrix> GpuWeights::Place(const GgufTensor& tensor) {
  GpuMatrix matrix = {tensor.dtype,
                      static_cast<uint32_t>(tensor.row_count()),
                      static_cast<uint32_t>(tensor.column_count()),
                      {}};
  const uint64_t group_bytes = GpuGroupSizeBytes(matrix.dtype, matrix.column_count);
  if (group_bytes > WindowLimitBytes()) {
    return MakeError(ErrorCode::kBackendFailed, "Rows of (%u) columns do not fit a GPU buffer.",
                     matrix.column_count);
  }
  const auto window_rows = static_cast<uint32_t>(
      std::min<uint64_t>(WindowLimitBytes() / group_bytes * kGpuGroupRows, 1u << 30));
  for (uint32_t row = 0; row < matrix.row_count; row += window_rows) {
    const uint32_t row_count = std::min(window_rows, matrix.row_count - row);
    const uint64_t size = DivideRoundUp(row_count, kGpuGroupRows) * group_bytes;
    if (windows_.empty() || windows_.back().used_bytes + size > windows_.back().size_bytes) {
      TRY(OpenWindow(size));
    }
    Window& window = windows_.back();
    matrix.parts.push_back(
        {window.buffer, static_cast<uint32_t>(window.used_bytes / 16), row, row_count});
    window.used_bytes += size;
    size_bytes_ += size;
  }
  return matrix;
}

// Blocks may lie across pieces.
Status GpuWeights::CheckFinite(std::span<const std::byte> bytes) {
  const size_t block_bytes = GetDType(tensor_->dtype).block_size_bytes;
  if (!pending_.empty()) {
    const size_t take = std::min(bytes.size(), block_bytes - pending_.size());
    pending_.insert(pending_.end(), bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(take));
    bytes = bytes.subspan(take);
    if (pending_.size() < block_bytes) return {};
    TRY(CheckBlocks(pending_));
    pending_.clear();
  }
  const size_t whole = bytes.size() / block_bytes * block_bytes;
  TRY(CheckBlocks(bytes.first(whole)));
  pending_.assign(bytes.begin() + static_cast<ptrdiff_t>(whole), bytes.end());
  return {};
}

Status GpuWeights::CheckBlocks(std::span<const std::byte> bytes) {
  const DTypeInfo& info = GetDType(tensor_->dtype);
  const uint64_t block_count = bytes.size() / info.block_size_bytes;
  const int64_t bad = FindNonFinite(tensor_->dtype, bytes.data(), block_count);
  if (bad >= 0) {
    const uint64_t block = checked_blocks_ + static_cast<uint64_t>(bad);
    return MakeError(
        ErrorCode::kBadWeights, "Tensor \"%s\" holds NaN or infinity (row %llu of type %s).",
        tensor_->name.c_str(),
        static_cast<unsigned long long>(block * info.block_length / tensor_->column_count()),
        info.name);
  }
  checked_blocks_ += block_count;
  return {};
}

Status GpuWeights::End() {
  if (IsVector(*tensor_)) {
    TRY(EndVector());
  } else {
    CHECK(!chunk_ && packed_rows_ == tensor_->row_count());
    matrices_.back().is_complete = true;
  }
  tensor_ = nullptr;
  pending_ = {};
  return {};
}

Status GpuWeights::EndVector() {
  TRY(CheckBlocks(pending_));
  std::vector<float> values(static_cast<size_t>(tensor_->column_count()));
  DequantizeRow(tensor_->dtype, pending_.data(), static_cast<uint32_t>(values.size()),
                values.data());
  AddVector(tensor_->name, values);
  return {};
}

Result<GpuPipelineId> GpuWeights::PipelineFor(DType dtype) {
  for (const PackPipeline& one : pipelines_) {
    if (one.dtype == dtype) return one.pipeline;
  }
  const KernelSource source = MakePackKernel(dtype);
  ASSIGN_OR_RETURN(const GpuPipelineId pipeline, gpu_.CreatePipeline(source.pipeline()));
  pipelines_.push_back({dtype, pipeline});
  return pipeline;
}

Status GpuWeights::PushRows(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    if (!chunk_) TRY(BeginChunk());
    const auto take =
        static_cast<size_t>(std::min<uint64_t>(bytes.size(), chunk_bytes_ - staged_bytes_));
    TRY(Stage(bytes.first(take)));
    bytes = bytes.subspan(take);
    if (staged_bytes_ == chunk_bytes_) TRY(EndChunk());
  }
  return {};
}

// Whole groups of rows of one part, as many as a staging buffer holds.
Status GpuWeights::BeginChunk() {
  const GpuMatrix& matrix = matrices_.back().matrix;
  const GpuMatrixPart* part = &matrix.parts[part_];
  if (packed_rows_ == part->row_begin + part->row_count) part = &matrix.parts[++part_];
  const uint64_t row_bytes = RowSizeBytes(matrix.dtype, matrix.column_count);
  const uint64_t group_bytes = row_bytes * kGpuGroupRows;
  const auto group_count =
      static_cast<uint32_t>(std::max<uint64_t>(kStagingBytes / group_bytes, 1));
  const uint32_t done = packed_rows_ - part->row_begin;
  const uint32_t row_count = std::min(group_count * kGpuGroupRows, part->row_count - done);
  chunk_bytes_ = row_count * row_bytes;
  staged_bytes_ = 0;
  ASSIGN_OR_RETURN(const Staging staging, TakeStaging(std::max<uint64_t>(
                                              kStagingBytes, RoundUp<uint64_t>(chunk_bytes_, 4))));
  const uint32_t group_words = GpuGroupSizeBytes(matrix.dtype, matrix.column_count) / 4;
  chunk_ = Chunk{.dtype = matrix.dtype,
                 .column_count = matrix.column_count,
                 .row_count = row_count,
                 .staging = staging,
                 .window = part->window,
                 .packed_begin = part->base * 4 + done / kGpuGroupRows * group_words};
  return {};
}

Result<GpuWeights::Staging> GpuWeights::TakeStaging(uint64_t size_bytes) {
  for (size_t i = 0; i < free_staging_.size(); ++i) {
    const Staging found = free_staging_[i];
    if (found.size_bytes < size_bytes) continue;
    free_staging_.erase(free_staging_.begin() + static_cast<ptrdiff_t>(i));
    return found;
  }
  ASSIGN_OR_RETURN(const GpuBufferId buffer,
                   gpu_.CreateBuffer(GpuBufferUsage::kWeights, size_bytes));
  return Staging{buffer, size_bytes};
}

// Uploads are in whole words: up to 3 bytes wait for the next ones, or for zeros at the chunk's
// end.
Status GpuWeights::Stage(std::span<const std::byte> bytes) {
  const auto tail_bytes = static_cast<size_t>(staged_bytes_ % 4);
  uint64_t at = staged_bytes_ - tail_bytes;
  staged_bytes_ += bytes.size();
  const bool is_last = staged_bytes_ == chunk_bytes_;
  if (tail_bytes > 0) {
    const size_t take = std::min(bytes.size(), 4 - tail_bytes);
    std::memcpy(tail_ + tail_bytes, bytes.data(), take);
    bytes = bytes.subspan(take);
    if (tail_bytes + take < 4 && !is_last) return {};
    std::memset(tail_ + tail_bytes + take, 0, 4 - tail_bytes - take);
    TRY(gpu_.Upload(chunk_->staging.buffer, at, tail_));
    at += 4;
  }
  const size_t whole = bytes.size() / 4 * 4;
  if (whole > 0) TRY(gpu_.Upload(chunk_->staging.buffer, at, bytes.first(whole)));
  bytes = bytes.subspan(whole);
  if (bytes.empty()) return {};
  std::memset(tail_, 0, sizeof(tail_));
  std::memcpy(tail_, bytes.data(), bytes.size());
  if (is_last) TRY(gpu_.Upload(chunk_->staging.buffer, at + whole, tail_));
  return {};
}

Status GpuWeights::EndChunk() {
  packed_rows_ += chunk_->row_count;
  waiting_.push_back(*chunk_);
  chunk_.reset();
  ASSIGN_OR_RETURN([[maybe_unused]] const bool is_done, PackPending());
  return {};
}

Result<bool> GpuWeights::PackPending() {
  size_t packed = 0;
  for (; packed < waiting_.size(); ++packed) {
    const Chunk& chunk = waiting_[packed];
    ASSIGN_OR_RETURN(const GpuPipelineId pipeline, PipelineFor(chunk.dtype));
    const GpuPipelineState state = gpu_.pipeline_state(pipeline);
    if (state == GpuPipelineState::kFailed) {
      TRY(gpu_.status());
      return MakeError(ErrorCode::kBackendFailed, "The GPU does not compile the kernel (pack %s).",
                       GetDType(chunk.dtype).name);
    }
    if (state != GpuPipelineState::kReady) break;
    TRY(Pack(chunk, pipeline));
    free_staging_.push_back(chunk.staging);
  }
  waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<ptrdiff_t>(packed));
  return waiting_.empty();
}

// The staging buffer and the parameters may be written again at once: the queue keeps the order.
Status GpuWeights::Pack(const Chunk& chunk, GpuPipelineId pipeline) {
  if (!params_buffer_) {
    ASSIGN_OR_RETURN(const GpuBufferId buffer,
                     gpu_.CreateBuffer(GpuBufferUsage::kParams, kParamsBytes));
    params_buffer_ = buffer;
  }
  const std::array<uint32_t, 16> params =
      PackParams(chunk.dtype, chunk.column_count, chunk.row_count, 0, chunk.packed_begin);
  TRY(gpu_.Upload(*params_buffer_, 0, std::as_bytes(std::span(params))));
  const GpuBufferBinding bindings[] = {
      {chunk.staging.buffer, GpuAccess::kRead, 0, chunk.staging.size_bytes},
      {chunk.window, GpuAccess::kReadWrite, 0, WindowSizeBytes(chunk.window)},
      {*params_buffer_, GpuAccess::kUniform, 0, sizeof(params)}};
  ASSIGN_OR_RETURN(const GpuBindGroupId group, gpu_.CreateBindGroup(pipeline, bindings));
  const uint32_t count = DivideRoundUp(params[3], kPackWorkgroupWords);
  const uint32_t x = std::min(count, kWorkgroupsInX);
  const GpuDispatch dispatch = {pipeline, group, 0, {x, DivideRoundUp(count, x), 1}};
  TRY(gpu_.Submit({&dispatch, 1}, {}));
  gpu_.DestroyBindGroup(group);
  return {};
}

void GpuWeights::AddVector(std::string_view name, std::span<const float> values) {
  const auto offset = static_cast<uint32_t>(vector_floats_.size());
  vector_floats_.insert(vector_floats_.end(), values.begin(), values.end());
  vector_floats_.resize(RoundUp<size_t>(vector_floats_.size(), 4));
  named_vectors_.push_back({std::string(name), offset, {values.begin(), values.end()}});
}

Status GpuWeights::Finish() {
  CHECK(!has_vectors_buffer_);
  if (vector_floats_.empty()) vector_floats_.resize(4);
  ASSIGN_OR_RETURN(vectors_buffer_,
                   gpu_.CreateBuffer(GpuBufferUsage::kWeights, vectors_size_bytes()));
  has_vectors_buffer_ = true;
  size_bytes_ += vectors_size_bytes();
  // Nothing is staged any more, but for chunks that wait for a kernel.
  for (const Staging& staging : free_staging_) gpu_.DestroyBuffer(staging.buffer);
  free_staging_.clear();
  return gpu_.Upload(vectors_buffer_, 0, std::as_bytes(std::span(vector_floats_)));
}

const GpuMatrix* GpuWeights::FindMatrix(std::string_view name) const {
  for (const NamedMatrix& named : matrices_) {
    if (named.name == name) return named.is_complete ? &named.matrix : nullptr;
  }
  return nullptr;
}

const std::vector<float>* GpuWeights::FindVector(std::string_view name) const {
  for (const NamedVector& named : named_vectors_) {
    if (named.name == name) return &named.values;
  }
  return nullptr;
}

std::optional<uint32_t> GpuWeights::FindVectorOffset(std::string_view name) const {
  for (const NamedVector& named : named_vectors_) {
    if (named.name == name) return named.offset;
  }
  return std::nullopt;
}

uint64_t GpuWeights::WindowSizeBytes(GpuBufferId window) const {
  for (const Window& one : windows_) {
    if (one.buffer == window) return one.size_bytes;
  }
  CHECK(!"no such window");
  return 0;
}

}  // namespace nonstop
