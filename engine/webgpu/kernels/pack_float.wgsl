// F32, F16 and BF16 rows as they are (RAW_BYTES a weight), padded to whole blocks. For pack.wgsl.
fn quant_word(row: u32, block: u32, i: u32) -> u32 {
  let column = block * 32u + i * 4u / RAW_BYTES;
  let address = row_address(row) + column * RAW_BYTES;
  if column + 4u / RAW_BYTES <= param(4u) {
    return raw_word(address);
  }
  if column < param(4u) {
    return raw_half(address);
  }
  return 0u;
}
fn high_word(row: u32, block: u32, i: u32) -> u32 {
  return 0u;
}
fn scale_word(row: u32, block: u32) -> u32 {
  return 0u;
}
fn super_word(row: u32, block: u32) -> u32 {
  return 0u;
}
