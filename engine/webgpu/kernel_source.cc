#include "webgpu/kernel_source.h"

#include <algorithm>
#include <bit>

#include "base/bytes.h"
#include "base/check.h"
#include "base/format.h"
#include "webgpu/lzma.h"

namespace nonstop {
namespace {

struct KernelFile {
  std::string_view name;
  uint32_t offset;  // in the text
  uint32_t size;
};

#include "webgpu/kernel_files.inc"  // generated: tools/embed_kernels.py

struct BindingInfo {
  KernelBinding binding;
  GpuAccess access;
  std::string_view declaration;  // after "@group(0) @binding(i) var"
  std::string_view accessors;
};

constexpr BindingInfo kBindings[] = {
    {KernelBinding::kRaw, GpuAccess::kRead, "<storage, read> raw_words: array<u32>;", ""},
    {KernelBinding::kActivationsIn, GpuAccess::kRead, "<storage, read> acts_in: array<f32>;",
     "fn load_act(i: u32) -> f32 { return acts_in[i]; }\n"},
    {KernelBinding::kActivationsIn4, GpuAccess::kRead, "<storage, read> acts_in: array<vec4<f32>>;",
     "fn load_act4(i: u32) -> vec4<f32> { return acts_in[i]; }\n"},
    {KernelBinding::kActivationsIn2, GpuAccess::kRead, "<storage, read> acts_in2: array<f32>;",
     "fn load_act2(i: u32) -> f32 { return acts_in2[i]; }\n"},
    {KernelBinding::kActivationsOut, GpuAccess::kReadWrite,
     "<storage, read_write> acts_out: array<f32>;",
     "fn store_act(i: u32, value: f32) { acts_out[i] = value; }\n"
     "fn load_out(i: u32) -> f32 { return acts_out[i]; }\n"},
    {KernelBinding::kWeights0, GpuAccess::kRead, "<storage, read> weights0: array<vec4<u32>>;", ""},
    {KernelBinding::kWeights1, GpuAccess::kRead, "<storage, read> weights1: array<vec4<u32>>;", ""},
    {KernelBinding::kWeights2, GpuAccess::kRead, "<storage, read> weights2: array<vec4<u32>>;", ""},
    {KernelBinding::kVectors, GpuAccess::kRead, "<storage, read> vectors: array<vec4<f32>>;",
     "fn load_vector(i: u32) -> f32 { return vectors[i / 4u][i % 4u]; }\n"
     "fn load_vector4(i: u32) -> vec4<f32> { return vectors[i]; }\n"},
    {KernelBinding::kCacheIn4, GpuAccess::kRead, "<storage, read> cache: array<vec4<u32>>;", ""},
    {KernelBinding::kCacheOut, GpuAccess::kReadWrite, "<storage, read_write> cache: array<u32>;",
     ""},
    {KernelBinding::kCacheOut4, GpuAccess::kReadWrite,
     "<storage, read_write> cache: array<vec4<u32>>;", ""},
    {KernelBinding::kBestIn, GpuAccess::kRead, "<storage, read> best_in: array<vec2<u32>>;", ""},
    {KernelBinding::kBestOut, GpuAccess::kReadWrite,
     "<storage, read_write> best_out: array<vec2<u32>>;", ""},
    {KernelBinding::kState, GpuAccess::kRead, "<storage, read> state: array<u32>;", ""},
    {KernelBinding::kStateOut, GpuAccess::kReadWrite,
     "<storage, read_write> state: array<atomic<u32>>;", ""},
    {KernelBinding::kRelay, GpuAccess::kReadWrite,
     "<storage, read_write> relay: array<atomic<u32>>;", ""},
    {KernelBinding::kPacked, GpuAccess::kReadWrite, "<storage, read_write> packed: array<u32>;",
     ""},
    {KernelBinding::kParams, GpuAccess::kUniform,
     "<uniform> params: array<vec4<u32>, PARAM_VECTORS>;",
     "fn param(i: u32) -> u32 { return params[i / 4u][i % 4u]; }\n"
     "fn param_f32(i: u32) -> f32 { return bitcast<f32>(param(i)); }\n"},
};
static_assert(std::size(kBindings) == static_cast<size_t>(KernelBinding::kCount));

const BindingInfo& GetBinding(KernelBinding binding) {
  const BindingInfo& info = kBindings[static_cast<size_t>(binding)];
  DCHECK(info.binding == binding);
  return info;
}

std::string_view FindFile(std::string_view name) {
  static const std::string* text =
      new std::string(UnpackLzma(kPackedText, kTextSize));  // constant, never destroyed
  for (const KernelFile& file : kFiles) {
    if (file.name == name) return std::string_view(*text).substr(file.offset, file.size);
  }
  CHECK(!"no such kernel file");
  return {};
}

// Floats by their bits: exact, and no printing of floats is linked in.
std::string Declare(const KernelConstant& constant) {
  const std::string name(constant.name);
  if (constant.is_float) {
    return Format("const %s = bitcast<f32>(0x%xu);\n", name.c_str(), constant.bits);
  }
  return Format("const %s = %uu;\n", name.c_str(), constant.bits);
}

void AppendNamed(std::string_view text, std::string_view role, std::string* wgsl) {
  constexpr std::string_view kRole = "ROLE";
  for (;;) {
    const size_t at = std::min(text.find(kRole), text.size());
    *wgsl += text.substr(0, at);
    if (at == text.size()) return;
    *wgsl += role;
    text.remove_prefix(at + kRole.size());
  }
}

}  // namespace

GpuAccess AccessOf(KernelBinding binding) { return GetBinding(binding).access; }

KernelConstant KernelConstant::Float(std::string_view name, float value) {
  return {name, std::bit_cast<uint32_t>(value), true};
}

KernelSource ComposeKernel(const KernelSpec& spec) {
  KernelSource source;
  source.name = spec.name;
  if (spec.uses_subgroups) source.wgsl += "enable subgroups;\n";
  source.wgsl += Declare(KernelConstant::Uint("PARAM_VECTORS", spec.param_vectors));
  for (const KernelConstant& constant : spec.constants) source.wgsl += Declare(constant);
  for (size_t i = 0; i < spec.bindings.size(); ++i) {
    CHECK(i == 0 || spec.bindings[i - 1] < spec.bindings[i]);
    const BindingInfo& info = GetBinding(spec.bindings[i]);
    source.wgsl += Format("@group(0) @binding(%zu) var", i);
    source.wgsl += info.declaration;
    source.wgsl += '\n';
    source.wgsl += info.accessors;
    source.bindings.push_back(info.access);
  }
  source.wgsl += spec.glue;
  for (std::string_view file : spec.files) source.wgsl += FindFile(file);
  for (const auto& [file, role] : spec.templates) AppendNamed(FindFile(file), role, &source.wgsl);
  return source;
}

std::array<uint32_t, 3> SpreadWorkgroups(uint64_t count) {
  constexpr uint32_t kMostPerDimension = 65'535;
  const uint64_t y = DivideRoundUp<uint64_t>(count, kMostPerDimension);
  if (y <= 1) return {static_cast<uint32_t>(count), 1, 1};
  return {static_cast<uint32_t>(DivideRoundUp<uint64_t>(count, y)), static_cast<uint32_t>(y), 1};
}

}  // namespace nonstop
