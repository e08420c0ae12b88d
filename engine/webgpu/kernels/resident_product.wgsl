// resident_product: one of resident.wgsl's products, ROLE being qkv, o, gate or down. LANES_ROLE lanes have a weight
// row, or a row of each of two matrices, every LANES_ROLE-th block of 32 columns each.
const BLOCKS_ROLE = COLUMNS_ROLE / 32u;
const STRIDE_ROLE = BLOCKS_ROLE | 1u;  // odd, so that staging has no bank conflicts
const XS_ROLE = 32u * STRIDE_ROLE;
const ROWS_ROLE = WORKGROUP / LANES_ROLE;
const SETS_ROLE = SET_ROWS_ROLE / ROWS_ROLE;
const ROUNDS_ROLE = (BLOCKS_ROLE + LANES_ROLE - 1u) / LANES_ROLE;
const STAGED_ROLE = (COLUMNS_ROLE + WORKGROUP - 1u) / WORKGROUP;

alias Raws_ROLE = array<Raw, ROUNDS_ROLE * MATRICES_ROLE>;

fn fetch_rows_ROLE(layer: u32, matrix: u32, row: u32, lane: u32, raws: ptr<function, Raws_ROLE>) {
  for (var round = 0u; round < ROUNDS_ROLE; round++) {
    let block = round * LANES_ROLE + lane;
    if block < BLOCKS_ROLE {
      for (var m = 0u; m < MATRICES_ROLE; m++) {
        let base = layer_word(layer, matrix + m);
        (*raws)[round * MATRICES_ROLE + m] = fetch_ROLE(matrix + m, window_of(layer, matrix + m), base, row, block);
      }
    }
  }
}

// One matrix, or two side by side.
fn add_products_ROLE(matrix: u32, lane: u32, raws: ptr<function, Raws_ROLE>, sums: ptr<function, Sums>) {
  for (var round = 0u; round < ROUNDS_ROLE; round++) {
    let block = round * LANES_ROLE + lane;
    if block < BLOCKS_ROLE {
      let a = decode_ROLE(matrix, (*raws)[round * MATRICES_ROLE]);
      if MATRICES_ROLE == 1u {
        (*sums).a += block_product(a, block, STRIDE_ROLE);
      } else {
        let b = decode_ROLE(matrix + 1u, (*raws)[(round + 1u) * MATRICES_ROLE - 1u]);
        let products = block_products(a, b, block, STRIDE_ROLE);
        (*sums).a += products.a;
        (*sums).b += products.b;
      }
    }
  }
}
// Of a weight row's lanes, as far as shuffles reach; the squares of all lanes that they reach. All at a time: one
// shuffle after the other would take as long each.
fn add_lanes_ROLE(parts: Sums) -> Sums {
  var sums = parts;
  for (var k = 1u; k < LANES_TOGETHER; k *= 2u) {
    let is_of_row = k < min(LANES_ROLE, subgroup_width);
    let a = subgroupShuffleXor(sums.a, k);
    sums.a += select(TeamF32(), a, is_of_row);
    if MATRICES_ROLE > 1u {
      let b = subgroupShuffleXor(sums.b, k);
      sums.b += select(TeamF32(), b, is_of_row);
    }
    if HAS_NORM_ROLE != 0u {
      let squared = subgroupShuffleXor(sums.squared, k);
      sums.squared += select(TeamF32(), squared, k < subgroup_width);
    }
  }
  return sums;
}

// Asks for the weights of the first set.
fn begin_ROLE(layer: u32, first_set: u32, local: u32, raws: ptr<function, Raws_ROLE>) {
  if first_set < SETS_ROLE {
    let rows = rows_ROLE(first_set);
    fetch_rows_ROLE(layer, rows.matrix, rows.begin + local / LANES_ROLE, local % LANES_ROLE, raws);
  }
}

fn run_ROLE(layer: u32, first_set: u32, count: u32, local: u32, raws: ptr<function, Raws_ROLE>) {
  let lane = local % LANES_ROLE;
  let place = local / LANES_ROLE;
  for (var row_set = first_set; row_set < SETS_ROLE; row_set += count) {
    let rows = rows_ROLE(row_set);
    // Looked at before the rest, and again should it not have been there.
    let operand_row = rows.begin + min(local, ROWS_ROLE - 1u);
    var operand = operand_ROLE(layer, operand_row);
    var sums = Sums();  // without "=" Tint does not make it zero again in the next iteration
    if row_set == first_set {
      stage_ROLE(layer, local, &sums);
    }
    while waits(are_there(operand)) {
      operand = operand_ROLE(layer, operand_row);
    }
    workgroupBarrier();
    add_products_ROLE(rows.matrix, lane, raws, &sums);
    if row_set + count < SETS_ROLE {
      let next = rows_ROLE(row_set + count);
      fetch_rows_ROLE(layer, next.matrix, next.begin + place, lane, raws);
    }
    sums = add_lanes_ROLE(sums);
    let reached = min(LANES_ROLE, together());
    if local % reached == 0u {
      partials[local / reached] = sums.a;
      if MATRICES_ROLE > 1u {
        partials[PARTIALS + local / reached] = sums.b;
      }
    }
    if HAS_NORM_ROLE != 0u && row_set == first_set && local % together() == 0u {
      square_parts[local / together()] = sums.squared;
    }
    workgroupBarrier();
    if local < ROWS_ROLE {
      finish_ROLE(layer, rows, local, shared_sum(0u, LANES_ROLE, local),
                  shared_sum(MATRICES_ROLE - 1u, LANES_ROLE, local), operand);
    }
  }
}
