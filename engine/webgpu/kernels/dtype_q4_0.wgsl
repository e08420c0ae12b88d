// Q4_0: quants, f16 scales; weight = (q - 8) * scale.
const Q4_0_SCALES = 8u * BLOCKS;
const Q4_0_GROUP = Q4_0_SCALES + BLOCKS;
fn load_block_q4_0(window: u32, group: u32, local: u32) -> Block {
  let scale = load_half(window, group + Q4_0_SCALES, local);
  return centred(nibbles(load_weight4(window, group + local)), 8.0, vec2<f32>(scale));
}
