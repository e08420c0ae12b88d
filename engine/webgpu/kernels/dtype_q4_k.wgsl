// Q4_K: quants, 6-bit scale and minimum, f16 d and dmin of 256; weight = (d * scale) * q - dmin * minimum.
const Q4_K_GROUP = 9u * BLOCKS + BLOCKS / 4u;
fn fetch_q4_k(window: u32, group: u32, local: u32, blocks: u32) -> Raw {
  let super_scale = load_weight_word(window, (group + 9u * blocks) * 4u + local / 8u);
  let scale = load_16(window, group + 8u * blocks, local);
  return Raw(load_weight4(window, group + local), vec4<u32>(), vec4(scale, super_scale, 0u, 0u));
}
fn decode_q4_k(raw: Raw) -> Block {
  let factors = unpack2x16float(raw.s.y) * vec2<f32>(unpack4xU8(raw.s.x).xy);
  return scaled(nibbles(raw.q), factors.xx, -factors.yy);
}
fn load_block_q4_k(window: u32, group: u32, local: u32) -> Block {
  return decode_q4_k(fetch_q4_k(window, group, local, BLOCKS));
}
