// Q4_0: quants, f16 scales; weight = (q - 8) * scale.
const Q4_0_GROUP = 9u * BLOCKS;
fn fetch_q4_0(window: u32, group: u32, local: u32, blocks: u32) -> Raw {
  let scale = load_16(window, group + 8u * blocks, local);
  return Raw(load_weight4(window, group + local), vec4<u32>(), vec4(scale, 0u, 0u, 0u));
}
fn decode_q4_0(raw: Raw) -> Block {
  return centred(nibbles(raw.q), 8.0, vec2<f32>(unpack2x16float(raw.s.x).x));
}
fn load_block_q4_0(window: u32, group: u32, local: u32) -> Block {
  return decode_q4_0(fetch_q4_0(window, group, local, BLOCKS));
}
