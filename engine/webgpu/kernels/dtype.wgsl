// What every weight type's dtype_*.wgsl gives: load_block_TYPE(window, group, local), 32 weights of
// a row; `group` is the vec4 where 8 rows start, `local` = (row % 8) * BLOCKS + block.
// Layout: webgpu/weight_layout.h. COLUMNS is the matrix's; weights_N.wgsl reads the windows.
const BLOCKS = (COLUMNS + 31u) / 32u;

// The weight of column 4 g + k is scale[g / 4] * w[g][k].
struct Block {
  w: array<vec4<f32>, 8>,
  scale: vec2<f32>,
}

// What a block takes of memory, as it lies there: asked for by fetch_TYPE, of a row of `blocks` blocks, and looked
// at by decode_TYPE.
struct Raw {
  q: vec4<u32>,
  r: vec4<u32>,  // more quants
  s: vec4<u32>,  // scales, high bits
}

fn low_nibbles(word: u32) -> vec4<f32> {
  return vec4<f32>(unpack4xU8(word & 0x0f0f0f0fu));
}
fn high_nibbles(word: u32) -> vec4<f32> {
  return vec4<f32>(unpack4xU8((word >> 4u) & 0x0f0f0f0fu));
}
fn nibbles(q: vec4<u32>) -> array<vec4<f32>, 8> {
  return array<vec4<f32>, 8>(low_nibbles(q.x), low_nibbles(q.y), low_nibbles(q.z), low_nibbles(q.w),
                             high_nibbles(q.x), high_nibbles(q.y), high_nibbles(q.z), high_nibbles(q.w));
}
// Bits g of each byte, as 16s.
fn fifth_bits(high: u32, g: u32) -> vec4<f32> {
  return vec4<f32>(unpack4xU8(((high >> g) & 0x01010101u) << 4u));
}
fn five_bits(q: vec4<u32>, high: u32) -> array<vec4<f32>, 8> {
  let low = nibbles(q);
  return array<vec4<f32>, 8>(low[0] + fifth_bits(high, 0u), low[1] + fifth_bits(high, 1u),
                             low[2] + fifth_bits(high, 2u), low[3] + fifth_bits(high, 3u),
                             low[4] + fifth_bits(high, 4u), low[5] + fifth_bits(high, 5u),
                             low[6] + fifth_bits(high, 6u), low[7] + fifth_bits(high, 7u));
}
fn two_bits(word: u32, j: u32) -> vec4<f32> {
  return vec4<f32>(unpack4xU8((word >> (2u * j)) & 0x03030303u));
}

// scale * w + minimum of each half of the block.
fn scaled(w: array<vec4<f32>, 8>, scale: vec2<f32>, minimum: vec2<f32>) -> Block {
  let d0 = vec4<f32>(scale.x);
  let d1 = vec4<f32>(scale.y);
  let m0 = vec4<f32>(minimum.x);
  let m1 = vec4<f32>(minimum.y);
  return Block(array<vec4<f32>, 8>(w[0] * d0 + m0, w[1] * d0 + m0, w[2] * d0 + m0, w[3] * d0 + m0,
                                   w[4] * d1 + m1, w[5] * d1 + m1, w[6] * d1 + m1, w[7] * d1 + m1),
               vec2<f32>(1.0));
}
// w - centre, to be multiplied by scale.
fn centred(w: array<vec4<f32>, 8>, centre: f32, scale: vec2<f32>) -> Block {
  let c = vec4<f32>(centre);
  return Block(array<vec4<f32>, 8>(w[0] - c, w[1] - c, w[2] - c, w[3] - c,
                                   w[4] - c, w[5] - c, w[6] - c, w[7] - c),
               scale);
}

// Item `i` of a plane of f16 or of 16-bit pairs that starts at a vec4.
fn load_16(window: u32, plane: u32, i: u32) -> u32 {
  return (load_weight_word(window, plane * 4u + i / 2u) >> (i % 2u * 16u)) & 0xffffu;
}
fn load_half(window: u32, plane: u32, i: u32) -> f32 {
  return unpack2x16float(load_16(window, plane, i)).x;
}
fn load_halves(window: u32, plane: u32, i: u32) -> vec2<f32> {
  return unpack2x16float(load_weight_word(window, plane * 4u + i));
}
// Two bytes as signed numbers.
fn signed_pair(pair: u32) -> vec2<f32> {
  return vec2<f32>(unpack4xI8(pair).xy);
}
