// Q5_0: quants, high bits, f16 scales; weight = (q - 16) * scale.
const Q5_0_GROUP = 11u * BLOCKS;
fn fetch_q5_0(window: u32, group: u32, local: u32, blocks: u32) -> Raw {
  let scale = load_16(window, group + 10u * blocks, local);
  let high = load_weight_word(window, (group + 8u * blocks) * 4u + local);
  return Raw(load_weight4(window, group + local), vec4<u32>(), vec4(scale, high, 0u, 0u));
}
fn decode_q5_0(raw: Raw) -> Block {
  return centred(five_bits(raw.q, raw.s.y), 16.0, vec2<f32>(unpack2x16float(raw.s.x).x));
}
fn load_block_q5_0(window: u32, group: u32, local: u32) -> Block {
  return decode_q5_0(fetch_q5_0(window, group, local, BLOCKS));
}
