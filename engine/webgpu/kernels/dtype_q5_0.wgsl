// Q5_0: quants, high bits, f16 scales; weight = (q - 16) * scale.
const Q5_0_HIGH = 8u * BLOCKS;
const Q5_0_SCALES = Q5_0_HIGH + 2u * BLOCKS;
const Q5_0_GROUP = Q5_0_SCALES + BLOCKS;
fn load_block_q5_0(window: u32, group: u32, local: u32) -> Block {
  let scale = load_half(window, group + Q5_0_SCALES, local);
  let high = load_weight_word(window, (group + Q5_0_HIGH) * 4u + local);
  return centred(five_bits(load_weight4(window, group + local), high), 16.0, vec2<f32>(scale));
}
