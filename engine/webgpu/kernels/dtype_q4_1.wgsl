// Q4_1: quants, f16 scale and minimum; weight = q * scale + minimum.
const Q4_1_GROUP = 10u * BLOCKS;
fn fetch_q4_1(window: u32, group: u32, local: u32, blocks: u32) -> Raw {
  let scale = load_weight_word(window, (group + 8u * blocks) * 4u + local);
  return Raw(load_weight4(window, group + local), vec4<u32>(), vec4(scale, 0u, 0u, 0u));
}
fn decode_q4_1(raw: Raw) -> Block {
  let scale = unpack2x16float(raw.s.x);
  return scaled(nibbles(raw.q), scale.xx, scale.yy);
}
fn load_block_q4_1(window: u32, group: u32, local: u32) -> Block {
  return decode_q4_1(fetch_q4_1(window, group, local, BLOCKS));
}
