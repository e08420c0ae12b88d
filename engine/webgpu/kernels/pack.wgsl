// pack: raw GGUF rows to groups of 8 rows in planes (webgpu/weight_layout.h), one word of the group
// an invocation.
// Params:   0 first raw byte, 1 first packed word, 2 rows there are, 3 words to write, 4 columns,
//           5 raw bytes of a row.
// Dispatch: (words / 64) workgroups, x first.
// Joined by pack_float.wgsl, pack_simple.wgsl or pack_qX_k.wgsl, which give for the block of 32
// columns of a row: quant_word(row, block, i), high_word(row, block, i), scale_word(row, block)
// (SCALE_BYTES low bytes count) and super_word(row, block) (of 256; SUPER_BYTES).
fn blocks() -> u32 {
  return (param(4u) + 31u) / 32u;
}

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
  return param(0u) + row * param(5u);
}

// Item `index` of a plane with `row_items` items a row is of this row.
fn row_of(first_row: u32, index: u32, row_items: u32) -> u32 {
  return first_row + index / row_items;
}

fn scale_item(first_row: u32, index: u32) -> u32 {
  let row = row_of(first_row, index, blocks());
  if row >= param(2u) {
    return 0u;
  }
  return scale_word(row, index % blocks());
}
fn super_item(first_row: u32, index: u32) -> u32 {
  let row_items = blocks() / 8u;
  let row = row_of(first_row, index, row_items);
  if row >= param(2u) {
    return 0u;
  }
  return super_word(row, index % row_items * 8u);
}

fn packed_word(first_row: u32, index: u32) -> u32 {
  let high_begin = 2u * blocks() * QUANT_BYTES;  // 8 rows, 4 bytes a word
  let scale_begin = high_begin + 2u * blocks() * HIGH_BYTES;
  let super_begin = scale_begin + 2u * blocks() * SCALE_BYTES;
  if index < scale_begin {
    let is_high = index >= high_begin;
    let block_words = select(QUANT_BYTES, HIGH_BYTES, is_high) / 4u;
    let item = select(index, index - high_begin, is_high);
    let row = row_of(first_row, item, blocks() * block_words);
    if row >= param(2u) {
      return 0u;
    }
    let block = item / block_words % blocks();
    if is_high {
      return high_word(row, block, item % block_words);
    }
    return quant_word(row, block, item % block_words);
  }
  if index < super_begin {
    let item = index - scale_begin;
    if SCALE_BYTES == 2u {
      return scale_item(first_row, 2u * item) | (scale_item(first_row, 2u * item + 1u) << 16u);
    }
    return scale_item(first_row, item);
  }
  let item = index - super_begin;
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
  let group_words =
      2u * blocks() * (QUANT_BYTES + HIGH_BYTES + SCALE_BYTES) + blocks() * SUPER_BYTES / 4u;
  packed[param(1u) + index] = packed_word(index / group_words * 8u, index % group_words);
}
