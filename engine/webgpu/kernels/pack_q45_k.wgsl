// Q4_K and Q5_K: d, dmin, 12 bytes of 6-bit scales and minima, 32 of high bits (Q5_K), 128 of
// nibbles. For pack.wgsl, pack_k.wgsl.
fn quant_word(row: u32, block: u32, i: u32) -> u32 {
  let part = block % 8u;
  let address = super_address(row, block) + 16u + 8u * HIGH_BYTES + part / 2u * 32u;
  return nibble_word(address, part % 2u * 4u, i);
}
fn high_word(row: u32, block: u32, i: u32) -> u32 {
  return bit_plane(super_address(row, block) + 16u, block % 8u);
}
fn scale_word(row: u32, block: u32) -> u32 {
  let address = super_address(row, block) + 4u;
  let part = block % 8u;
  if part < 4u {
    return (raw_byte(address + part) & 63u) | ((raw_byte(address + part + 4u) & 63u) << 8u);
  }
  let low = raw_byte(address + part + 4u);
  let scale = (low & 0xfu) | ((raw_byte(address + part - 4u) >> 6u) << 4u);
  let minimum = (low >> 4u) | ((raw_byte(address + part) >> 6u) << 4u);
  return scale | (minimum << 8u);
}
fn super_word(row: u32, block: u32) -> u32 {
  return raw_word(super_address(row, block));
}
