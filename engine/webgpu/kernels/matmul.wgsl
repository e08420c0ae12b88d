// matmul: products of many token rows with the rows of a matrix, in tiles of 32 tokens by TILE_ROWS rows
// (half of them of a gate, half of its up). STEP_BLOCKS blocks of 32 columns of the tile are unpacked once for
// all tokens; those of the next step are fetched while this one is computed.
// Layout:   x (tokens, COLUMNS); weights in planes (webgpu/weight_layout.h).
// Dispatch: (sets of ROWS weight rows, tiles of tokens) workgroups of 128 invocations, each with 4 tokens by
//           TILE_ROWS / 16 rows; or, where there are few workgroups, of 256 in two halves, each of which multiplies
//           half of a step's columns. TILE_ROWS * STEP_BLOCKS is 64 or, with 256 invocations and memory, 128.
// Params:   as matvec.wgsl. Barriers: two for each step, two to add the halves. Accumulates in f32.
const HALF = 128u;
const HALVES = WORKGROUP / HALF;
const X_FIRST = HALF / 2u * HALVES;  // of the invocations that fetch x
const X_STAGERS = WORKGROUP - X_FIRST;
const TILE_TOKENS = 32u;
const ROWS = TILE_ROWS / MATRICES;
const ROWS_EACH = TILE_ROWS / 16u;
const STEPS = (BLOCKS + STEP_BLOCKS - 1u) / STEP_BLOCKS;
const TILE_BLOCKS = TILE_ROWS * STEP_BLOCKS;
const X_EACH = 8u * STEP_BLOCKS * TILE_TOKENS / X_STAGERS;  // vec4s of x that an invocation fetches

// Columns 4 g .. 4 g + 3 of the step, at (g, token) and (g, matrix, row).
var<workgroup> xs: array<vec4<f32>, 8u * STEP_BLOCKS * TILE_TOKENS>;
var<workgroup> ws: array<vec4<f32>, 8u * STEP_BLOCKS * TILE_ROWS>;

// What an invocation holds of the next step: those of one half some of x, TILE_BLOCKS of the others a block of weights.
var<private> next_weights: Block;
var<private> next_x: array<vec4<f32>, X_EACH>;

// Neighbours in g lie in different banks.
fn x_at(g: u32, token: u32) -> u32 {
  return g * TILE_TOKENS + (token ^ (g % 8u));
}

// One row's block. Rows past the matrix's end are not stored, whatever they hold; a block past the row's end
// meets zeros of x.
fn fetch_weights(rows: RowSet, step: u32, local: u32) {
  let place = local % TILE_ROWS;
  let row = rows.begin + place % ROWS;
  let block = step * STEP_BLOCKS + local / TILE_ROWS;
  if row < rows.end && block < BLOCKS {
    next_weights = load_matrix(rows.matrix + place / ROWS, row, block);
  }
}
// Without a loop, whose index could keep the block out of registers.
fn stage_weights(local: u32) {
  let low = next_weights.scale.x;
  let high = next_weights.scale.y;
  let at = local / TILE_ROWS * 8u * TILE_ROWS + local % TILE_ROWS;
  ws[at] = next_weights.w[0] * low;
  ws[at + TILE_ROWS] = next_weights.w[1] * low;
  ws[at + 2u * TILE_ROWS] = next_weights.w[2] * low;
  ws[at + 3u * TILE_ROWS] = next_weights.w[3] * low;
  ws[at + 4u * TILE_ROWS] = next_weights.w[4] * high;
  ws[at + 5u * TILE_ROWS] = next_weights.w[5] * high;
  ws[at + 6u * TILE_ROWS] = next_weights.w[6] * high;
  ws[at + 7u * TILE_ROWS] = next_weights.w[7] * high;
}

fn fetch_x(first_token: u32, step: u32, i: u32) {
  for (var k = 0u; k < X_EACH; k++) {
    let at = i + X_STAGERS * k;
    let token = first_token + at / (8u * STEP_BLOCKS);
    next_x[k] = vec4<f32>();
    if token < run_rows() {
      next_x[k] = load_x4(token, step * 8u * STEP_BLOCKS + at % (8u * STEP_BLOCKS));
    }
  }
}
fn stage_x(i: u32) {
  for (var k = 0u; k < X_EACH; k++) {
    let at = i + X_STAGERS * k;
    xs[x_at(at % (8u * STEP_BLOCKS), at / (8u * STEP_BLOCKS))] = next_x[k];
  }
}

fn fetch(rows: RowSet, first_token: u32, step: u32, local: u32) {
  if local >= X_FIRST {
    fetch_x(first_token, step, local - X_FIRST);
  } else if local < TILE_BLOCKS {
    fetch_weights(rows, step, local);
  }
}
fn stage(local: u32) {
  if local >= X_FIRST {
    stage_x(local - X_FIRST);
  } else if local < TILE_BLOCKS {
    stage_weights(local);
  }
}

fn dots(x: vec4<f32>, a: vec4<f32>, b: vec4<f32>, c: vec4<f32>, d: vec4<f32>) -> vec4<f32> {
  if ROWS_EACH == 2u {
    return vec4<f32>(dot(x, a), dot(x, b), 0.0, 0.0);
  }
  return vec4<f32>(dot(x, a), dot(x, b), dot(x, c), dot(x, d));
}

// `sums`: of rows local % 16 + 16 i of the tile, or of some of a gate and the same ones of its up.
fn store_sums(rows: RowSet, token: u32, local: u32, sums: vec4<f32>) {
  if token >= run_rows() {
    return;
  }
  for (var i = 0u; i < ROWS_EACH / MATRICES; i++) {
    let row = rows.begin + local % 16u + 16u * i;
    if row < rows.end {
      let at = param(1u) + token * param(2u) + y_column(rows, row);
      let a = biased(rows, row, sums[i]);
      let b = sums[i + ROWS_EACH - ROWS_EACH / MATRICES];
      store_act(at, epilogue(epilogue_operand(at), a, b));
    }
  }
}

fn matmul(row_tile: u32, token_tile: u32, local: u32) {
  let rows = row_set(row_tile);
  let first_token = token_tile * TILE_TOKENS;
  let half = local / HALF;
  let w_place = local % 16u;
  let x_place = local % HALF / 16u;
  var sums0 = vec4<f32>();
  var sums1 = vec4<f32>();
  var sums2 = vec4<f32>();
  var sums3 = vec4<f32>();
  fetch(rows, first_token, 0u, local);
  for (var step = 0u; step < STEPS; step++) {
    workgroupBarrier();
    stage(local);
    workgroupBarrier();
    if step + 1u < STEPS {
      fetch(rows, first_token, step + 1u, local);
    }
    for (var i = 0u; i < 8u * STEP_BLOCKS / HALVES; i++) {
      let g = half * 4u * STEP_BLOCKS + i;
      let w = g * TILE_ROWS + w_place;
      let a = ws[w];
      let b = ws[w + 16u];
      var c = a;
      var d = b;
      if ROWS_EACH > 2u {
        c = ws[w + 32u];
        d = ws[w + 48u];
      }
      sums0 += dots(xs[x_at(g, x_place)], a, b, c, d);
      sums1 += dots(xs[x_at(g, x_place + 8u)], a, b, c, d);
      sums2 += dots(xs[x_at(g, x_place + 16u)], a, b, c, d);
      sums3 += dots(xs[x_at(g, x_place + 24u)], a, b, c, d);
    }
  }
  if HALVES == 2u {
    let at = local % HALF;
    workgroupBarrier();
    if half == 1u {
      ws[at] = sums0;
      ws[at + HALF] = sums1;
      ws[at + 2u * HALF] = sums2;
      ws[at + 3u * HALF] = sums3;
    }
    workgroupBarrier();
    if half == 1u {
      return;
    }
    sums0 += ws[at];
    sums1 += ws[at + HALF];
    sums2 += ws[at + 2u * HALF];
    sums3 += ws[at + 3u * HALF];
  }
  store_sums(rows, first_token + x_place, local, sums0);
  store_sums(rows, first_token + x_place + 8u, local, sums1);
  store_sums(rows, first_token + x_place + 16u, local, sums2);
  store_sums(rows, first_token + x_place + 24u, local, sums3);
}

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  if is_stopped() {
    return;
  }
  matmul(id.x, id.y, local);
}
