// Q5_1: quants, high bits, f16 scale and minimum; weight = q * scale + minimum.
const Q5_1_GROUP = 12u * BLOCKS;
fn fetch_q5_1(window: u32, group: u32, local: u32, blocks: u32) -> Raw {
  let scale = load_weight_word(window, (group + 10u * blocks) * 4u + local);
  let high = load_weight_word(window, (group + 8u * blocks) * 4u + local);
  return Raw(load_weight4(window, group + local), vec4<u32>(), vec4(scale, high, 0u, 0u));
}
fn decode_q5_1(raw: Raw) -> Block {
  let scale = unpack2x16float(raw.s.x);
  return scaled(five_bits(raw.q, raw.s.y), scale.xx, scale.yy);
}
fn load_block_q5_1(window: u32, group: u32, local: u32) -> Block {
  return decode_q5_1(fetch_q5_1(window, group, local, BLOCKS));
}
