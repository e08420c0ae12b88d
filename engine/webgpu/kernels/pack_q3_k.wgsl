// Q3_K: 32 bytes of high bits, 64 of 2-bit weights, 12 of 6-bit scales, d. For pack.wgsl, pack_k.wgsl.
fn quant_word(row: u32, block: u32, i: u32) -> u32 {
  let part = block % 8u;
  let address = super_address(row, block) + 32u + part / 4u * 32u + 16u * i;
  return two_bit_plane(address, part % 4u * 2u);
}
fn high_word(row: u32, block: u32, i: u32) -> u32 {
  return bit_plane(super_address(row, block), block % 8u);
}
// The 6-bit scale of 16 weights, less 32, as a byte.
fn scale_byte(address: u32, index: u32) -> u32 {
  let low = (raw_byte(address + index % 8u) >> (index / 8u * 4u)) & 0xfu;
  let high = (raw_byte(address + 8u + index % 4u) >> (index / 4u * 2u)) & 3u;
  return ((low | (high << 4u)) - 32u) & 0xffu;
}
fn scale_word(row: u32, block: u32) -> u32 {
  let address = super_address(row, block) + 96u;
  let index = block % 8u * 2u;
  return scale_byte(address, index) | (scale_byte(address, index + 1u) << 8u);
}
fn super_word(row: u32, block: u32) -> u32 {
  return raw_half(super_address(row, block) + 108u);
}
