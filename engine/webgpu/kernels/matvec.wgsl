// matvec: products of 2 to 8 token rows with the rows of a matrix, with what comes before (RMSNorm)
// and after (an epilogue) in the same dispatch.
// Layout:   x (TOKENS, COLUMNS); weights in planes (webgpu/weight_layout.h).
// Dispatch: a workgroup of WORKGROUP invocations for each set of ROWS weight rows, LANES invocations
//           a row, each of them every LANES-th block of 32 columns.
// Params:   0 x; 1 y; 2 width of y; 3 norm weights; 4..6 first vec4 of each matrix; 7 first column of
//           y; 8 rows; 9..11 biases; 12 frequencies; 13 cache; 14 words of a page; 15 residual.
// x is staged in workgroup memory CHUNK blocks at a time, column 4 g + k of block b at vec4
// (token, g, b): lanes with neighbouring blocks then read neighbouring vec4s.
// Joined by matvec_lanes.wgsl or (of one token) matvec_subgroups.wgsl, which have main, lane_sum and
// lanes_together; rows_*.wgsl; norm_*.wgsl; matvec_finish.wgsl with an epilogue, or matvec_qkv.wgsl.
// Barriers: one before the products of a chunk and one after the last. Accumulates in f32.
const ROWS = WORKGROUP / LANES;
const OUTPUTS = ROWS * TOKENS;
const CHUNKS = (BLOCKS + CHUNK - 1u) / CHUNK;
const STRIDE = CHUNK | 1u;  // odd, so that staging has no bank conflicts
const LINE = LANES + 1u;    // likewise for sums
const STAGERS = WORKGROUP / TOKENS;  // invocations that stage one token

// Products are summed where they will be shared, so that the loop over tokens stays a loop: unrolled
// eightfold, kernels take compilers long.
var<workgroup> xs: array<vec4<f32>, TOKENS * 8u * STRIDE>;
var<workgroup> partials: array<f32, MATRICES * OUTPUTS * LINE>;  // (matrix, row, token, lane)
var<workgroup> squares: array<f32, WORKGROUP>;                   // (token, stager)
var<workgroup> square_sums: array<f32, TOKENS * LINE>;

// Returns the squares of what this invocation has staged.
fn stage(chunk: u32, local: u32) -> f32 {
  let token = local / STAGERS;
  var squared = 0.0;
  for (var i = local % STAGERS; i < CHUNK * 8u; i += STAGERS) {
    let c = chunk * CHUNK * 8u + i;
    var x = load_x4(token, c);
    if HAS_NORM != 0u {
      squared += dot(x, x);
      x *= norm_weight4(c);
    }
    xs[(token * 8u + i % 8u) * STRIDE + i / 8u] = x;
  }
  return squared;
}

fn product(weights: Block, token: u32, staged: u32) -> f32 {
  let x = token * 8u * STRIDE + staged;
  let low = dot(weights.w[0], xs[x]) + dot(weights.w[1], xs[x + STRIDE]) +
            dot(weights.w[2], xs[x + 2u * STRIDE]) + dot(weights.w[3], xs[x + 3u * STRIDE]);
  let high = dot(weights.w[4], xs[x + 4u * STRIDE]) + dot(weights.w[5], xs[x + 5u * STRIDE]) +
             dot(weights.w[6], xs[x + 6u * STRIDE]) + dot(weights.w[7], xs[x + 7u * STRIDE]);
  return weights.scale.x * low + weights.scale.y * high;
}

// Tokens that there are.
fn token_rows() -> u32 {
  return min(run_rows(), TOKENS);
}
// Where the sum of a lane lies.
fn partial_at(matrix: u32, place: u32, token: u32, lane: u32) -> u32 {
  return (matrix * OUTPUTS + place * TOKENS + token) * LINE + lane;
}

fn multiply_chunk(chunk: u32, matrix: u32, row: u32, place: u32, lane: u32) {
  let begin = chunk * CHUNK;
  let end = min(begin + CHUNK, BLOCKS);
  for (var block = begin + lane; block < end; block += LANES) {
    for (var m = 0u; m < MATRICES; m++) {
      let weights = load_matrix(matrix + m, row, block);
      for (var t = 0u; t < token_rows(); t++) {
        partials[partial_at(m, place, t, lane)] += product(weights, t, block - begin);
      }
    }
  }
}

fn clear_sums(place: u32, lane: u32) {
  for (var m = 0u; m < MATRICES; m++) {
    for (var t = 0u; t < token_rows(); t++) {
      partials[partial_at(m, place, t, lane)] = 0.0;
    }
  }
}

// The squares that the lanes of the first row sum up.
fn share_squares(place: u32, lane: u32) {
  if HAS_NORM == 0u || place > 0u {
    return;
  }
  for (var t = 0u; t < token_rows(); t++) {
    var part = 0.0;
    for (var i = lane; i < STAGERS; i += LANES) {
      part += squares[t * STAGERS + i];
    }
    square_sums[t * LINE + lane] = part;
  }
}

// After a barrier: the whole product of output (row of the set, token), x being normed.
fn product_of(matrix: u32, output: u32) -> f32 {
  var sum = 0.0;
  for (var i = 0u; i < LANES; i++) {
    sum += partials[(matrix * OUTPUTS + output) * LINE + i];
  }
  if HAS_NORM == 0u {
    return sum;
  }
  var squared = 0.0;
  for (var i = 0u; i < LANES; i++) {
    squared += square_sums[output % TOKENS * LINE + i];
  }
  return sum * inverseSqrt(squared / f32(COLUMNS) + EPS);
}

fn matvec(index: u32, local: u32) {
  let lane = local % LANES;
  let place = local / LANES;
  let rows = row_set(index);
  let row = matrix_row(rows, place);
  if is_stopped() {
    return;
  }
  prefetch(rows, local);
  prepare_x(local);
  var squared = 0.0;
  clear_sums(place, lane);
  for (var chunk = 0u; chunk < CHUNKS; chunk++) {
    if chunk > 0u {
      workgroupBarrier();
    }
    squared += stage(chunk, local);
    squares[local] = squared;
    workgroupBarrier();
    if rows.begin + place < rows.end {
      multiply_chunk(chunk, rows.matrix, row, place, lane);
    }
  }
  share_squares(place, lane);
  workgroupBarrier();
  finish(rows, local);
}
