// WGSL text of a kernel, composed of real .wgsl files (kernels/, embedded in the module without
// comments and indentation), constants, and the declarations of what it binds.
// Goals: one source per kernel, specialised by constants and by which files are joined; names of
// bindings and their accessors in one table. Non-goals: a preprocessor.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "port/gpu.h"

namespace nonstop {

// What a kernel may bind; each is declared with its accessors. Bound in this order.
enum class KernelBinding : uint8_t {
  kRaw,             // raw_words: array<u32>, bytes of a file
  kActivationsIn,   // acts_in: array<f32>            load_act(i) -> f32
  kActivationsIn4,  // acts_in: array<vec4<f32>>      load_act4(i / 4) -> vec4<f32>
  kActivationsIn2,  // acts_in2: array<f32>, a second arena   load_act2(i)
  kActivationsOut,  // acts_out: array<f32>, read_write       store_act(i, value), load_out(i)
  kWeights0,        // weights0: array<vec4<u32>>, a window
  kWeights1,        //
  kWeights2,        //
  kVectors,         // vectors: array<vec4<f32>>   load_vector(i), load_vector4(i / 4)
  kCacheIn4,        // cache: array<vec4<u32>>, read
  kCacheOut,        // cache: array<u32>, read_write
  kCacheOut4,       // cache: array<vec4<u32>>, read_write
  kBestIn,          // best_in: array<vec2<u32>>, read, of sampling
  kBestOut,         // best_out: array<vec2<u32>>, read_write
  kState,           // state: array<u32>, read        (state.wgsl has its layout)
  kStateOut,        // state: array<atomic<u32>>, read_write
  kRelay,           // relay: array<atomic<u32>>, read_write, of the resident plan
  kPacked,          // packed: array<u32>, read_write: a window of weights while it is packed
  kParams,          // params: words, uniform with a dynamic offset      param(word),
                    // param_f32(word)
  kCount,
};

GpuAccess AccessOf(KernelBinding binding);

struct KernelConstant {
  std::string_view name;
  uint32_t bits;
  bool is_float = false;

  static KernelConstant Uint(std::string_view name, uint32_t value) { return {name, value}; }
  static KernelConstant Float(std::string_view name, float value);
};

struct KernelSpec {
  std::string name;  // for people; equal texts may have equal names
  std::vector<KernelConstant> constants = {};
  std::vector<KernelBinding> bindings = {};  // ascending
  std::vector<std::string_view> files = {};  // of kernels/, without ".wgsl"
  std::string glue = {};                     // aliases and one-line functions between files
  bool uses_subgroups = false;
  uint32_t param_vectors = 4;
  // Files that follow, with ROLE in their text replaced.
  struct Template {
    std::string_view file;
    std::string_view role;
  };
  std::vector<Template> templates = {};
};

struct KernelSource {
  std::string name;
  std::string wgsl;
  std::vector<GpuAccess> bindings;

  GpuPipelineSource pipeline(bool is_optional = false) const {
    return {name, wgsl, bindings, is_optional};
  }
};

KernelSource ComposeKernel(const KernelSpec& spec);

// `count` workgroups, in two dimensions past WebGPU's limit for one: kernels count y * x_count + x
// and leave out what is too much.
std::array<uint32_t, 3> SpreadWorkgroups(uint64_t count);

}  // namespace nonstop
