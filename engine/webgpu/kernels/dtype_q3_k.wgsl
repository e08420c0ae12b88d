// Q3_K: 2-bit quants, high bits, signed scales of 16, f16 d of 256;
// weight = (d * scale) * (q + 4 * high - 4).
const Q3_K_HIGH = 4u * BLOCKS;
const Q3_K_SCALES = Q3_K_HIGH + 2u * BLOCKS;
const Q3_K_SUPERS = Q3_K_SCALES + BLOCKS;
const Q3_K_GROUP = Q3_K_SUPERS + BLOCKS / 8u;
fn three_bits(word: u32, j: u32, high: u32) -> vec4<f32> {
  return vec4<f32>(unpack4xU8(((word >> (2u * j)) & 0x03030303u) | ((high & 0x01010101u) << 2u)));
}
fn load_block_q3_k(window: u32, group: u32, local: u32) -> Block {
  let super_scale = load_half(window, group + Q3_K_SUPERS, local / 8u);
  let scales = signed_pair(load_16(window, group + Q3_K_SCALES, local));
  let high = load_weight_word(window, (group + Q3_K_HIGH) * 4u + local);
  let words = load_weight4(window, group + local / 2u);
  let q = select(words.xy, words.zw, local % 2u == 1u);
  return centred(array<vec4<f32>, 8>(three_bits(q.x, 0u, high), three_bits(q.x, 1u, high >> 1u),
                                     three_bits(q.x, 2u, high >> 2u), three_bits(q.x, 3u, high >> 3u),
                                     three_bits(q.y, 0u, high >> 4u), three_bits(q.y, 1u, high >> 5u),
                                     three_bits(q.y, 2u, high >> 6u), three_bits(q.y, 3u, high >> 7u)),
                 4.0, super_scale * scales);
}
