// Q4_K: quants, 6-bit scale and minimum, f16 d and dmin of 256; weight = (d * scale) * q - dmin * minimum.
const Q4_K_SCALES = 8u * BLOCKS;
const Q4_K_SUPERS = Q4_K_SCALES + BLOCKS;
const Q4_K_GROUP = Q4_K_SUPERS + BLOCKS / 4u;
fn load_block_q4_k(window: u32, group: u32, local: u32) -> Block {
  let super_scale = load_halves(window, group + Q4_K_SUPERS, local / 8u);
  let factors = super_scale * vec2<f32>(unpack4xU8(load_16(window, group + Q4_K_SCALES, local)).xy);
  return scaled(nibbles(load_weight4(window, group + local)), factors.xx, -factors.yy);
}
