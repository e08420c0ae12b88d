// Q5_K: as Q4_K with a high bit.
const Q5_K_HIGH = 8u * BLOCKS;
const Q5_K_SCALES = Q5_K_HIGH + 2u * BLOCKS;
const Q5_K_SUPERS = Q5_K_SCALES + BLOCKS;
const Q5_K_GROUP = Q5_K_SUPERS + BLOCKS / 4u;
fn load_block_q5_k(window: u32, group: u32, local: u32) -> Block {
  let super_scale = load_halves(window, group + Q5_K_SUPERS, local / 8u);
  let factors = super_scale * vec2<f32>(unpack4xU8(load_16(window, group + Q5_K_SCALES, local)).xy);
  let high = load_weight_word(window, (group + Q5_K_HIGH) * 4u + local);
  return scaled(five_bits(load_weight4(window, group + local), high), factors.xx, -factors.yy);
}
