// Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, IQ4_NL: blocks of scales, high bits, quants; only the high bits
// change their order. For pack.wgsl.
fn block_address(row: u32, block: u32) -> u32 {
  return row_address(row) + block * (SCALE_BYTES + HIGH_BYTES + QUANT_BYTES);
}
fn quant_word(row: u32, block: u32, i: u32) -> u32 {
  return raw_word(block_address(row, block) + SCALE_BYTES + HIGH_BYTES + 4u * i);
}
// Bit 4 g + k becomes bit g of byte k.
fn high_word(row: u32, block: u32, i: u32) -> u32 {
  let bits = raw_word(block_address(row, block) + SCALE_BYTES);
  var word = 0u;
  for (var column = 0u; column < 32u; column++) {
    word |= ((bits >> column) & 1u) << (column % 4u * 8u + column / 4u);
  }
  return word;
}
fn scale_word(row: u32, block: u32) -> u32 {
  if SCALE_BYTES == 2u {
    return raw_half(block_address(row, block));
  }
  return raw_word(block_address(row, block));
}
fn super_word(row: u32, block: u32) -> u32 {
  return 0u;
}
