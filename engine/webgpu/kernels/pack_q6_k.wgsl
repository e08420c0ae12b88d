// Q6_K: 128 bytes of nibbles, 64 of 2-bit high parts, 16 signed scales, d. For pack.wgsl, pack_k.wgsl.
fn quant_word(row: u32, block: u32, i: u32) -> u32 {
  let part = block % 8u;
  let address = super_address(row, block) + part / 4u * 64u + part % 2u * 32u;
  return nibble_word(address, part % 4u / 2u * 4u, i);
}
fn high_word(row: u32, block: u32, i: u32) -> u32 {
  let part = block % 8u;
  let address = super_address(row, block) + 128u + part / 4u * 32u + 16u * i;
  return two_bit_plane(address, part % 4u * 2u);
}
fn scale_word(row: u32, block: u32) -> u32 {
  return raw_half(super_address(row, block) + 192u + block % 8u * 2u);
}
fn super_word(row: u32, block: u32) -> u32 {
  return raw_half(super_address(row, block) + 208u);
}
