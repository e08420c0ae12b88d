// Q2_K: 16 bytes of scale and minimum, 64 of 2-bit weights, d, dmin. For pack.wgsl, pack_k.wgsl.
fn quant_word(row: u32, block: u32, i: u32) -> u32 {
  let part = block % 8u;
  let address = super_address(row, block) + 16u + part / 4u * 32u + 16u * i;
  return two_bit_plane(address, part % 4u * 2u);
}
fn high_word(row: u32, block: u32, i: u32) -> u32 {
  return 0u;
}
fn scale_word(row: u32, block: u32) -> u32 {
  return raw_half(super_address(row, block) + block % 8u * 2u);
}
fn super_word(row: u32, block: u32) -> u32 {
  return raw_word(super_address(row, block) + 80u);
}
