// Q5_K: as Q4_K with a high bit.
const Q5_K_GROUP = 11u * BLOCKS + BLOCKS / 4u;
fn fetch_q5_k(window: u32, group: u32, local: u32, blocks: u32) -> Raw {
  let super_scale = load_weight_word(window, (group + 11u * blocks) * 4u + local / 8u);
  let scale = load_16(window, group + 10u * blocks, local);
  let high = load_weight_word(window, (group + 8u * blocks) * 4u + local);
  return Raw(load_weight4(window, group + local), vec4<u32>(), vec4(scale, super_scale, high, 0u));
}
fn decode_q5_k(raw: Raw) -> Block {
  let factors = unpack2x16float(raw.s.y) * vec2<f32>(unpack4xU8(raw.s.x).xy);
  return scaled(five_bits(raw.q, raw.s.z), factors.xx, -factors.yy);
}
fn load_block_q5_k(window: u32, group: u32, local: u32) -> Block {
  return decode_q5_k(fetch_q5_k(window, group, local, BLOCKS));
}
