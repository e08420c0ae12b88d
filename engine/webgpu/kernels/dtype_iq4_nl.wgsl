// IQ4_NL: quants, f16 scales; weight = level[q] * scale. Levels: kIq4NlLevels, tensor/dequantize.h,
// four signed bytes a word.
const IQ4_NL_LEVELS = array<u32, 4>(0xbfad9881u, 0xf6eaddcfu, 0x26190d01u, 0x71594535u);
const IQ4_NL_SCALES = 8u * BLOCKS;
const IQ4_NL_GROUP = IQ4_NL_SCALES + BLOCKS;
fn iq4_nl_level(q: u32) -> u32 {
  var levels = IQ4_NL_LEVELS;
  return (levels[q / 4u] >> (q % 4u * 8u)) & 0xffu;
}
fn iq4_nl_levels(q: vec4<u32>) -> vec4<f32> {
  let word = iq4_nl_level(q.x) | (iq4_nl_level(q.y) << 8u) | (iq4_nl_level(q.z) << 16u) |
             (iq4_nl_level(q.w) << 24u);
  return vec4<f32>(unpack4xI8(word));
}
fn iq4_nl_low(word: u32) -> vec4<f32> {
  return iq4_nl_levels(unpack4xU8(word & 0x0f0f0f0fu));
}
fn load_block_iq4_nl(window: u32, group: u32, local: u32) -> Block {
  let scale = load_half(window, group + IQ4_NL_SCALES, local);
  let q = load_weight4(window, group + local);
  let h = q >> vec4<u32>(4u);
  return Block(array<vec4<f32>, 8>(iq4_nl_low(q.x), iq4_nl_low(q.y), iq4_nl_low(q.z), iq4_nl_low(q.w),
                                   iq4_nl_low(h.x), iq4_nl_low(h.y), iq4_nl_low(h.z), iq4_nl_low(h.w)),
               vec2<f32>(scale));
}
