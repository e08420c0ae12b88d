// resident_product: one of resident.wgsl's products, ROLE being qkv, o, gate or down. LANES_ROLE lanes have a weight
// row, or a row of each of two matrices, every LANES_ROLE-th block of 32 columns each.
const BLOCKS_ROLE = COLUMNS_ROLE / 32u;
const STRIDE_ROLE = BLOCKS_ROLE | 1u;  // odd, so that staging has no bank conflicts
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
fn product_of_ROLE(matrix: u32, m: u32, lane: u32, raws: ptr<function, Raws_ROLE>) -> f32 {
  var sum = 0.0;
  for (var round = 0u; round < ROUNDS_ROLE; round++) {
    let block = round * LANES_ROLE + lane;
    if block < BLOCKS_ROLE {
      sum += block_product(decode_ROLE(matrix + m, (*raws)[round * MATRICES_ROLE + m]), block, STRIDE_ROLE);
    }
  }
  return sum;
}

fn products_ROLE(matrix: u32, lane: u32, squared: f32, raws: ptr<function, Raws_ROLE>) -> vec3<f32> {
  var products = vec3(product_of_ROLE(matrix, 0u, lane, raws), 0.0, squared);
  if MATRICES_ROLE > 1u {
    products.y = product_of_ROLE(matrix, 1u, lane, raws);
  }
  return products;
}
// Of a row's lanes, as far as shuffles reach; the squares of all lanes that they reach.
fn add_lanes_ROLE(parts: vec3<f32>) -> vec3<f32> {
  var sums = parts;
  for (var k = 1u; k < LANES_TOGETHER; k *= 2u) {
    if HAS_NORM_ROLE == 0u {
      sums.x += select(0.0, subgroupShuffleXor(sums.x, k), k < min(LANES_ROLE, subgroup_width));
    } else {
      let other = subgroupShuffleXor(sums, k);
      sums += select(vec3<f32>(), other, vec3(vec2(k < min(LANES_ROLE, subgroup_width)), k < subgroup_width));
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
    if row_set != first_set {
      fetch_rows_ROLE(layer, rows.matrix, rows.begin + place, lane, raws);
    }
    // Looked at before the rest, and again should it not have been there.
    let operand_row = rows.begin + min(local, ROWS_ROLE - 1u);
    var operand = operand_ROLE(layer, operand_row);
    var squared = 0.0;
    if row_set == first_set {
      squared = stage_ROLE(layer, local);
    }
    while waits(operand != 0u) {
      operand = operand_ROLE(layer, operand_row);
    }
    workgroupBarrier();
    let sums = add_lanes_ROLE(products_ROLE(rows.matrix, lane, squared, raws));
    let reached = min(LANES_ROLE, together());
    if local % reached == 0u {
      for (var m = 0u; m < MATRICES_ROLE; m++) {
        partials[m * WORKGROUP + local / reached] = sums[m];
      }
    }
    if HAS_NORM_ROLE != 0u && row_set == first_set && local % together() == 0u {
      square_parts[local / together()] = sums.z;
    }
    workgroupBarrier();
    if local < ROWS_ROLE {
      finish_ROLE(layer, rows, local, shared_sum(0u, LANES_ROLE, local),
                  shared_sum(MATRICES_ROLE - 1u, LANES_ROLE, local), operand);
    }
  }
}
