// Q2_K: 2-bit quants, 4-bit scale and minimum of 16, f16 d and dmin of 256;
// weight = (d * scale) * q - dmin * minimum.
const Q2_K_SCALES = 4u * BLOCKS;
const Q2_K_SUPERS = Q2_K_SCALES + BLOCKS;
const Q2_K_GROUP = Q2_K_SUPERS + BLOCKS / 4u;
fn load_block_q2_k(window: u32, group: u32, local: u32) -> Block {
  let super_scale = load_halves(window, group + Q2_K_SUPERS, local / 8u);
  let packed = load_16(window, group + Q2_K_SCALES, local);
  let scales = unpack4xU8((packed & 0x0f0fu) | ((packed & 0xf0f0u) << 12u));
  let words = load_weight4(window, group + local / 2u);
  let q = select(words.xy, words.zw, local % 2u == 1u);
  return scaled(array<vec4<f32>, 8>(two_bits(q.x, 0u), two_bits(q.x, 1u), two_bits(q.x, 2u), two_bits(q.x, 3u),
                                    two_bits(q.y, 0u), two_bits(q.y, 1u), two_bits(q.y, 2u), two_bits(q.y, 3u)),
                super_scale.x * vec2<f32>(scales.xy), -super_scale.y * vec2<f32>(scales.zw));
}
