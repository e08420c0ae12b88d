#include "jobs.h"

#include <algorithm>
#include <vector>

#include <wasm_simd128.h>

#include "base/bytes.h"
#include "cpu/kv_store.h"
#include "cpu/matmul_testing.h"
#include "cpu/step.h"

namespace nonstop::bench {
namespace {

constexpr uint32_t kRowGroup = 8;  // packed formats interleave eight rows

// [begin, end) of part `part` when `count` items are shared out.
struct Share {
  uint64_t begin, end;
  Share(uint64_t count, uint32_t part, uint32_t part_count)
      : begin(count * part / part_count), end(count * (part + 1) / part_count) {}
};

// Eight streams side by side: a core that follows one alone waits for memory, and reads half as
// fast.
constexpr uint64_t kStreamCount = 8;
constexpr uint64_t kVectorBytes = sizeof(v128_t);

// size_bytes is a multiple of kStreamCount * 2 * kVectorBytes.
uint32_t SumOf(const std::byte* data, uint64_t size_bytes) {
  const uint64_t stream_bytes = size_bytes / kStreamCount;
  v128_t sums[kStreamCount] = {};
  for (uint64_t at = 0; at < stream_bytes; at += 2 * kVectorBytes) {
    for (uint64_t i = 0; i < kStreamCount; ++i) {
      const std::byte* from = data + i * stream_bytes + at;
      sums[i] = wasm_v128_xor(sums[i], wasm_v128_load(from));
      sums[i] = wasm_v128_xor(sums[i], wasm_v128_load(from + kVectorBytes));
    }
  }
  for (uint64_t i = 1; i < kStreamCount; ++i) sums[0] = wasm_v128_xor(sums[0], sums[i]);
  return static_cast<uint32_t>(wasm_i32x4_extract_lane(sums[0], 0));
}

class ReadJob final : public Job {
 public:
  explicit ReadJob(AlignedBuffer buffer) : buffer_(std::move(buffer)) {
    read_bytes = static_cast<double>(buffer_.size_bytes());
  }

  static constexpr uint64_t kBlockBytes = 4096;

  void RunPart(uint32_t part, uint32_t part_count) override {
    const Share blocks(buffer_.size_bytes() / kBlockBytes, part, part_count);
    const uint64_t size_bytes = (blocks.end - blocks.begin) * kBlockBytes;
    sink_ = SumOf(buffer_.data() + blocks.begin * kBlockBytes, size_bytes);
  }

 private:
  AlignedBuffer buffer_;
  volatile uint32_t sink_ = 0;  // so that reading has a use
};

class MatMulJob final : public Job {
 public:
  static std::unique_ptr<Job> Make(DType dtype, const MatMulShape& shape, uint64_t size_bytes) {
    auto job = std::unique_ptr<MatMulJob>(new MatMulJob(dtype, shape, size_bytes));
    return job->Allocate() ? std::move(job) : nullptr;
  }

  void RunPart(uint32_t part, uint32_t part_count) override {
    const Share groups(DivideRoundUp(shape_.row_count, kRowGroup), part, part_count);
    const auto begin = static_cast<uint32_t>(groups.begin * kRowGroup);
    const uint32_t end = std::min(static_cast<uint32_t>(groups.end * kRowGroup), shape_.row_count);
    // As the engine chooses (cpu/backend.cc).
    static const auto mat_mul = cpu::PairDotsAreFaster() ? cpu::MatMulByPairs : cpu::MatMul;
    cpu::Matrix matrix = matrix_;
    for (uint32_t i = 0; i < matrix_count_; ++i) {
      matrix.data = weights_.data() + i * stride_bytes_;
      mat_mul(matrix, begin, end, activations_, y_.data() + begin, shape_.row_count);
    }
  }

 private:
  MatMulJob(DType dtype, const MatMulShape& shape, uint64_t size_bytes) : shape_(shape) {
    const cpu::ActivationType type = cpu::ChooseActivation(dtype, cpu::ActivationType::kQ8);
    matrix_ = {dtype, cpu::PackedFormat::kInterleaved8, shape.row_count, shape.column_count,
               nullptr};
    activations_ = {type, shape.token_count, shape.column_count, nullptr};
    const uint64_t file_bytes = shape.row_count * RowSizeBytes(dtype, shape.column_count);
    matrix_count_ = static_cast<uint32_t>(DivideRoundUp(size_bytes, file_bytes));
    stride_bytes_ =
        RoundUp(cpu::PackedSizeBytes(matrix_.format, dtype, shape.row_count, shape.column_count),
                uint64_t{AlignedBuffer::kAlignment});
    read_bytes = static_cast<double>(file_bytes) * matrix_count_;
    operations = 2.0 * shape.row_count * shape.column_count * shape.token_count * matrix_count_;
  }

  // One matrix is made and packed; the others are copies of it at other addresses.
  bool Allocate() {
    auto weights = AlignedBuffer::CreateUninitialized(stride_bytes_ * matrix_count_);
    if (!weights.ok()) return false;
    weights_ = std::move(*weights);
    cpu::TestRandom random(1);
    const auto raw = cpu::RandomRows(matrix_.dtype, shape_.row_count, shape_.column_count, random);
    cpu::PackRows(matrix_.format, matrix_.dtype, raw.data(), 0, shape_.row_count,
                  shape_.column_count, weights_.data());
    for (uint32_t i = 1; i < matrix_count_; ++i) {
      std::memcpy(weights_.data() + i * stride_bytes_, weights_.data(), stride_bytes_);
    }
    y_.resize(size_t{shape_.row_count} * shape_.token_count);
    return PrepareActivations(random);
  }

  bool PrepareActivations(cpu::TestRandom& random) {
    const size_t row_bytes = cpu::ActivationRowSizeBytes(activations_.type, shape_.column_count);
    auto rows = AlignedBuffer::Create(row_bytes * shape_.token_count);
    if (!rows.ok()) return false;
    rows_ = std::move(*rows);
    for (uint32_t t = 0; t < shape_.token_count; ++t) {
      const auto x = cpu::RandomActivations(shape_.column_count, random);
      cpu::PrepareActivationRow(activations_.type, x.data(), shape_.column_count,
                                rows_.data() + t * row_bytes);
    }
    activations_.data = rows_.data();
    return true;
  }

  MatMulShape shape_;
  cpu::Matrix matrix_;
  cpu::Activations activations_;
  uint32_t matrix_count_ = 0;
  uint64_t stride_bytes_ = 0;
  AlignedBuffer weights_;
  AlignedBuffer rows_;
  std::vector<float> y_;
};

// As cpu/step_attention.cc does it: one token in ranges of its context, several in tiles.
class AttentionJob final : public Job {
 public:
  static std::unique_ptr<Job> Make(const AttentionShape& shape) {
    auto job = std::unique_ptr<AttentionJob>(new AttentionJob(shape));
    return job->Allocate() ? std::move(job) : nullptr;
  }

  // The items are the KV heads of all layers.
  void RunPart(uint32_t part, uint32_t part_count) override {
    const Share items(uint64_t{shape_.layer_count} * shape_.kv_head_count, part, part_count);
    for (auto item = static_cast<uint32_t>(items.begin); item < items.end; ++item) {
      const cpu::AttentionArgs args = Args(item, &threads_[part]);
      if (shape_.token_count == 1) {
        AttendInRanges(args, threads_[part].partials.data());
      } else {
        cpu::Attention(args);
      }
    }
  }

 private:
  static constexpr uint32_t kMaxParts = 64;
  struct Thread {
    std::vector<float> scratch;
    std::vector<float> partials;
  };

  explicit AttentionJob(const AttentionShape& shape)
      : shape_(shape),
        kv_({.type = cpu::KvType::kF16,
             .layer_count = shape.layer_count,
             .kv_head_count = shape.kv_head_count,
             .head_dim = shape.head_dim}) {
    const double row_count = double{1} * shape.layer_count * shape.head_dim;
    read_bytes = row_count * shape.kv_head_count * shape.context_length * 2 * 2;  // K, V; 2 bytes
    // The last token sees the whole context, each before it one token less.
    const double seen_count =
        shape.token_count * (shape.context_length - (shape.token_count - 1) / 2.0);
    operations = row_count * shape.query_head_count * seen_count * 2 * 2;
  }

  uint32_t group_size() const { return shape_.query_head_count / shape_.kv_head_count; }
  size_t width() const { return size_t{shape_.query_head_count} * shape_.head_dim; }

  cpu::AttentionArgs Args(uint32_t item, Thread* thread) {
    const uint32_t layer = item / shape_.kv_head_count;
    const uint32_t head = item % shape_.kv_head_count;
    const size_t first_column = size_t{head} * group_size() * shape_.head_dim;
    return {.pages = pages_.data(),
            .k_offset_bytes = kv_.shape().HeadOffset(layer, false, head),
            .v_offset_bytes = kv_.shape().HeadOffset(layer, true, head),
            .kv_type = kv_.shape().type,
            .head_dim = shape_.head_dim,
            .query_head_count = group_size(),
            .position = shape_.context_length - shape_.token_count,
            .token_count = shape_.token_count,
            .window = 0,
            .scale = 0.125f,
            .soft_cap = 0,
            .q = q_.data() + first_column,
            .q_stride = width(),
            .out = out_.data() + layer * q_.size() + first_column,
            .out_stride = width(),
            .scratch = thread->scratch.data()};
  }

  void AttendInRanges(const cpu::AttentionArgs& args, float* partials) const {
    const uint32_t end = shape_.context_length;
    const uint32_t length = cpu::AttentionRangeTokens(end);
    const uint32_t range_count = DivideRoundUp(end, length);
    for (uint32_t i = 0; i < range_count; ++i) {
      cpu::AttendPartially(args, i * length, std::min(end, (i + 1) * length),
                           partials + i * partial_floats());
    }
    cpu::MergePartials(args, partials, range_count);
  }

  size_t partial_floats() const {
    return size_t{group_size()} * (shape_.head_dim + cpu::kPartialExtra);
  }

  bool Allocate() {
    cpu::TestRandom random(1);
    const uint32_t page_count = DivideRoundUp(shape_.context_length, cpu::kKvPageTokenCount);
    for (uint32_t page = 0; page < page_count; ++page) {
      if (!kv_.EnsurePage(page).ok()) return false;
    }
    for (uint32_t page = 0; page < page_count; ++page) {
      FillPage(kv_.page(page), random);
      pages_.push_back(kv_.page(page));
    }
    q_ = cpu::RandomActivations(shape_.token_count * width(), random);
    out_.resize(q_.size() * shape_.layer_count);
    for (Thread& thread : threads_) {
      thread.scratch.resize(cpu::AttentionScratchFloats(group_size(), shape_.head_dim,
                                                        shape_.token_count, shape_.context_length));
      thread.partials.resize(cpu::kMostRanges * partial_floats());
    }
    return true;
  }

  void FillPage(std::byte* page, cpu::TestRandom& random) {
    const uint64_t row_bytes = kv_.shape().row_size_bytes();
    const auto x = cpu::RandomActivations(shape_.head_dim, random);
    for (uint64_t at = 0; at < kv_.shape().page_size_bytes(); at += row_bytes) {
      cpu::StoreKv(x.data(), shape_.head_dim, kv_.shape().type, page + at);
    }
  }

  AttentionShape shape_;
  cpu::KvStore kv_;
  std::vector<const std::byte*> pages_;
  std::vector<float> q_;
  std::vector<float> out_;
  Thread threads_[kMaxParts];
};

}  // namespace

std::unique_ptr<Job> MakeReadJob(uint64_t size_bytes) {
  auto buffer = AlignedBuffer::Create(RoundUp(size_bytes, uint64_t{ReadJob::kBlockBytes}));
  if (!buffer.ok()) return nullptr;
  // Pages that were never written may all be one page of zeros.
  for (uint64_t at = 0; at < buffer->size_bytes(); at += 4) {
    StoreLe(buffer->data() + at, static_cast<uint32_t>(at));
  }
  return std::make_unique<ReadJob>(std::move(*buffer));
}

std::unique_ptr<Job> MakeMatMulJob(DType dtype, const MatMulShape& shape, uint64_t size_bytes) {
  return MatMulJob::Make(dtype, shape, size_bytes);
}

std::unique_ptr<Job> MakeAttentionJob(const AttentionShape& shape) {
  return AttentionJob::Make(shape);
}

}  // namespace nonstop::bench
