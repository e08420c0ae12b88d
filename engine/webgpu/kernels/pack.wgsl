// pack: raw GGUF rows to groups of 8 rows in planes (webgpu/weight_layout.h), one word of the group
// an invocation.
// Params:   0 first raw byte, 1 first packed word, 2 rows there are, 3 words to write.
// Dispatch: (words / 64) workgroups, x first.
// Joined by pack_float.wgsl, pack_simple.wgsl or pack_qX_k.wgsl, which give for the block of 32
// columns of a row: quant_word(row, block, i), high_word(row, block, i), scale_word(row, block)
// (SCALE_BYTES low bytes count) and super_word(row, block) (of 256; SUPER_BYTES).
const BLOCKS = (COLUMNS + 31u) / 32u;
const SUPERS = max(BLOCKS / 8u, 1u);
const HIGH_BEGIN = 8u * BLOCKS * QUANT_BYTES / 4u;
const SCALE_BEGIN = HIGH_BEGIN + 8u * BLOCKS * HIGH_BYTES / 4u;
const SUPER_BEGIN = SCALE_BEGIN + 8u * BLOCKS * SCALE_BYTES / 4u;
const GROUP_WORDS = SUPER_BEGIN + BLOCKS * SUPER_BYTES / 4u;

fn raw_byte(address: u32) -> u32 {
  return (raw_words[address / 4u] >> (address % 4u * 8u)) & 0xffu;
}
fn raw_half(address: u32) -> u32 {
  return raw_byte(address) | (raw_byte(address + 1u) << 8u);
}
// Four bytes at any address.
fn raw_word(address: u32) -> u32 {
  let shift = address % 4u * 8u;
  let low = raw_words[address / 4u] >> shift;
  if shift == 0u {
    return low;
  }
  return low | (raw_words[address / 4u + 1u] << (32u - shift));
}
fn row_address(row: u32) -> u32 {
  return param(0u) + row * RAW_ROW_BYTES;
}

// Item `index` of a plane: (row in the group, item in the row).
fn row_of(first_row: u32, index: u32, row_items: u32) -> u32 {
  return first_row + index / row_items;
}

fn scale_item(first_row: u32, index: u32) -> u32 {
  let row = row_of(first_row, index, BLOCKS);
  if row >= param(2u) {
    return 0u;
  }
  return scale_word(row, index % BLOCKS);
}
fn super_item(first_row: u32, index: u32) -> u32 {
  let row = row_of(first_row, index, SUPERS);
  if row >= param(2u) {
    return 0u;
  }
  return super_word(row, index % SUPERS * 8u);
}

fn packed_word(first_row: u32, index: u32) -> u32 {
  if index < SCALE_BEGIN {
    let is_high = index >= HIGH_BEGIN;
    let block_words = select(QUANT_BYTES, HIGH_BYTES, is_high) / 4u;
    let item = select(index, index - HIGH_BEGIN, is_high);
    let row = row_of(first_row, item, BLOCKS * block_words);
    if row >= param(2u) {
      return 0u;
    }
    let block = item / block_words % BLOCKS;
    if is_high {
      return high_word(row, block, item % block_words);
    }
    return quant_word(row, block, item % block_words);
  }
  if index < SUPER_BEGIN {
    let item = index - SCALE_BEGIN;
    if SCALE_BYTES == 2u {
      return scale_item(first_row, 2u * item) | (scale_item(first_row, 2u * item + 1u) << 16u);
    }
    return scale_item(first_row, item);
  }
  let item = index - SUPER_BEGIN;
  if SUPER_BYTES == 2u {
    return super_item(first_row, 2u * item) | (super_item(first_row, 2u * item + 1u) << 16u);
  }
  return super_item(first_row, item);
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) count: vec3<u32>) {
  let index = id.y * count.x * 64u + id.x;
  if index >= param(3u) {
    return;
  }
  packed[param(1u) + index] = packed_word(index / GROUP_WORDS * 8u, index % GROUP_WORDS);
}
