// Q4_1: quants, f16 scale and minimum; weight = q * scale + minimum.
const Q4_1_SCALES = 8u * BLOCKS;
const Q4_1_GROUP = Q4_1_SCALES + 2u * BLOCKS;
fn load_block_q4_1(window: u32, group: u32, local: u32) -> Block {
  let scale = load_halves(window, group + Q4_1_SCALES, local);
  return scaled(nibbles(load_weight4(window, group + local)), scale.xx, scale.yy);
}
