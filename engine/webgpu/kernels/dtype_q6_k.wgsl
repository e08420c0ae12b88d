// Q6_K: quants, 2 high bits, signed scales of 16, f16 d of 256; weight = (d * scale) * (q - 32).
const Q6_K_GROUP = 13u * BLOCKS + BLOCKS / 8u;
fn six_bits(low: u32, high: u32) -> vec4<f32> {
  return vec4<f32>(unpack4xU8((low & 0x0f0f0f0fu) | ((high & 0x03030303u) << 4u)));
}
fn fetch_q6_k(window: u32, group: u32, local: u32, blocks: u32) -> Raw {
  let super_scale = load_16(window, group + 13u * blocks, local / 8u);
  let scales = load_16(window, group + 12u * blocks, local);
  let words = load_weight4(window, group + 8u * blocks + local / 2u);
  let high = select(words.xy, words.zw, local % 2u == 1u);
  return Raw(load_weight4(window, group + local), vec4<u32>(), vec4(scales, super_scale, high));
}
fn decode_q6_k(raw: Raw) -> Block {
  let q = raw.q;
  let high = raw.s.zw;
  return centred(array<vec4<f32>, 8>(six_bits(q.x, high.x), six_bits(q.y, high.x >> 2u),
                                     six_bits(q.z, high.x >> 4u), six_bits(q.w, high.x >> 6u),
                                     six_bits(q.x >> 4u, high.y), six_bits(q.y >> 4u, high.y >> 2u),
                                     six_bits(q.z >> 4u, high.y >> 4u), six_bits(q.w >> 4u, high.y >> 6u)),
                 32.0, unpack2x16float(raw.s.y).x * signed_pair(raw.s.x));
}
fn load_block_q6_k(window: u32, group: u32, local: u32) -> Block {
  return decode_q6_k(fetch_q6_k(window, group, local, BLOCKS));
}
