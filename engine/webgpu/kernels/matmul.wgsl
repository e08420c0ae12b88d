// matmul: products of many token rows with the rows of a matrix, in tiles of 32 tokens by 64 rows
// (32 of a gate and 32 of its up). A block of 32 columns of the tile is unpacked once for all tokens.
// Layout:   x (tokens, COLUMNS); weights in planes (webgpu/weight_layout.h).
// Dispatch: (sets of ROWS weight rows, tiles of tokens) workgroups of 128 invocations, each with 4
//           tokens by 4 rows.
// Params:   as matvec.wgsl. Barriers: two for each block of columns. Accumulates in f32.
const TILE_TOKENS = 32u;
const TILE_ROWS = 64u;
const ROWS = TILE_ROWS / MATRICES;
const X_STRIDE = TILE_TOKENS + 1u;  // so that staging has no bank conflicts

var<workgroup> xs: array<vec4<f32>, 8u * X_STRIDE>;   // (g, token): columns 4 g .. 4 g + 3
var<workgroup> ws: array<vec4<f32>, 8u * TILE_ROWS>;  // (g, matrix, row)

// One row's block. Rows past the matrix's end are not stored, whatever they hold.
fn stage_weights(rows: RowSet, place: u32, block: u32) {
  let row = rows.begin + place % ROWS;
  if row >= rows.end {
    return;
  }
  let weights = load_matrix(rows.matrix + place / ROWS, row, block);
  // Without a loop, whose index could keep the block out of registers.
  let low = weights.scale.x;
  let high = weights.scale.y;
  ws[place] = weights.w[0] * low;
  ws[TILE_ROWS + place] = weights.w[1] * low;
  ws[2u * TILE_ROWS + place] = weights.w[2] * low;
  ws[3u * TILE_ROWS + place] = weights.w[3] * low;
  ws[4u * TILE_ROWS + place] = weights.w[4] * high;
  ws[5u * TILE_ROWS + place] = weights.w[5] * high;
  ws[6u * TILE_ROWS + place] = weights.w[6] * high;
  ws[7u * TILE_ROWS + place] = weights.w[7] * high;
}

fn stage_x(first_token: u32, i: u32, block: u32) {
  let token = first_token + i / 8u;
  let g = i % 8u;
  var x = vec4<f32>();
  if token < run_rows() {
    x = load_x4(token, block * 8u + g);
  }
  xs[g * X_STRIDE + i / 8u] = x;
}

// Half of the invocations unpack weights while the others fetch x.
fn stage(rows: RowSet, first_token: u32, block: u32, local: u32) {
  if local < TILE_ROWS {
    stage_weights(rows, local, block);
    return;
  }
  for (var i = local - TILE_ROWS; i < 8u * TILE_TOKENS; i += 64u) {
    stage_x(first_token, i, block);
  }
}

fn dots(x: vec4<f32>, a: vec4<f32>, b: vec4<f32>, c: vec4<f32>, d: vec4<f32>) -> vec4<f32> {
  return vec4<f32>(dot(x, a), dot(x, b), dot(x, c), dot(x, d));
}

// `sums`: of rows local % 16 + 16 i of the tile, or of two of a gate and the same two of its up.
fn store_sums(rows: RowSet, token: u32, local: u32, sums: vec4<f32>) {
  if token >= run_rows() {
    return;
  }
  for (var i = 0u; i < 4u / MATRICES; i++) {
    let row = rows.begin + local % 16u + 16u * i;
    if row < rows.end {
      let at = param(1u) + token * param(2u) + y_column(rows, row);
      let a = biased(rows, row, sums[i]);
      store_act(at, epilogue(epilogue_operand(at), a, sums[i + 4u - 4u / MATRICES]));
    }
  }
}

fn matmul(row_tile: u32, token_tile: u32, local: u32) {
  let rows = row_set(row_tile);
  let first_token = token_tile * TILE_TOKENS;
  let w_place = local % 16u;
  let x_place = local / 16u;
  var sums0 = vec4<f32>();
  var sums1 = vec4<f32>();
  var sums2 = vec4<f32>();
  var sums3 = vec4<f32>();
  for (var block = 0u; block < BLOCKS; block++) {
    workgroupBarrier();
    stage(rows, first_token, block, local);
    workgroupBarrier();
    for (var g = 0u; g < 8u; g++) {
      let w = g * TILE_ROWS + w_place;
      let x = g * X_STRIDE + x_place;
      let a = ws[w];
      let b = ws[w + 16u];
      let c = ws[w + 32u];
      let d = ws[w + 48u];
      sums0 += dots(xs[x], a, b, c, d);
      sums1 += dots(xs[x + 8u], a, b, c, d);
      sums2 += dots(xs[x + 16u], a, b, c, d);
      sums3 += dots(xs[x + 24u], a, b, c, d);
    }
  }
  store_sums(rows, first_token + x_place, local, sums0);
  store_sums(rows, first_token + x_place + 8u, local, sums1);
  store_sums(rows, first_token + x_place + 16u, local, sums2);
  store_sums(rows, first_token + x_place + 24u, local, sums3);
}

@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  if is_stopped() {
    return;
  }
  matmul(id.x, id.y, local);
}
