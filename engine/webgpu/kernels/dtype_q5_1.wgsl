// Q5_1: quants, high bits, f16 scale and minimum; weight = q * scale + minimum.
const Q5_1_HIGH = 8u * BLOCKS;
const Q5_1_SCALES = Q5_1_HIGH + 2u * BLOCKS;
const Q5_1_GROUP = Q5_1_SCALES + 2u * BLOCKS;
fn load_block_q5_1(window: u32, group: u32, local: u32) -> Block {
  let scale = load_halves(window, group + Q5_1_SCALES, local);
  let high = load_weight_word(window, (group + Q5_1_HIGH) * 4u + local);
  return scaled(five_bits(load_weight4(window, group + local), high), scale.xx, scale.yy);
}
