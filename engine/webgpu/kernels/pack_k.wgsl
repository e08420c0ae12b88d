// What the K types share: 256 weights are 8 parts of 32. For pack.wgsl.
fn super_address(row: u32, block: u32) -> u32 {
  return row_address(row) + block / 8u * RAW_BLOCK_BYTES;
}
// Bit `part` of 32 bytes, in column order, as bit g of byte k.
fn bit_plane(address: u32, part: u32) -> u32 {
  var word = 0u;
  for (var g = 0u; g < 8u; g++) {
    word |= ((raw_word(address + 4u * g) >> part) & 0x01010101u) << g;
  }
  return word;
}
// Two bits at `shift` of 16 bytes.
fn two_bit_plane(address: u32, shift: u32) -> u32 {
  var word = 0u;
  for (var j = 0u; j < 4u; j++) {
    word |= ((raw_word(address + 4u * j) >> shift) & 0x03030303u) << (2u * j);
  }
  return word;
}
// Word i of a part's nibbles, which are at `shift` of 32 bytes.
fn nibble_word(address: u32, shift: u32, i: u32) -> u32 {
  let low = (raw_word(address + 4u * i) >> shift) & 0x0f0f0f0fu;
  let high = (raw_word(address + 16u + 4u * i) >> shift) & 0x0f0f0f0fu;
  return low | (high << 4u);
}
