// matvec: products of 2 to 8 token rows with the rows of a matrix, with what comes before (RMSNorm) and after
// (an epilogue) in the same dispatch. A dispatch of a few microseconds is all latency, so what comes from memory
// is asked for at once: x, the first block of weights, and what the epilogue needs.
// Layout:   x (TOKENS, COLUMNS); weights in planes (webgpu/weight_layout.h).
// Dispatch: a workgroup of WORKGROUP invocations for each set of ROWS weight rows, LANES invocations
//           a row, each of them every LANES-th block of 32 columns.
// Params:   0 x; 1 y; 2 width of y; 3 norm weights; 4..6 first vec4 of each matrix; 7 first column of
//           y; 8 rows; 9..11 biases; 12 frequencies; 13 cache; 14 words of a page; 15 residual.
// x is staged in workgroup memory CHUNK blocks at a time, column 4 g + k of block b at vec4
// (token, g, b): lanes with neighbouring blocks then read neighbouring vec4s.
// Joined by matvec_lanes.wgsl or matvec_subgroups.wgsl, which have main, lane_sum and lanes_together;
// rows_*.wgsl; norm_*.wgsl; matvec_finish.wgsl with an epilogue, or matvec_qkv.wgsl.
// Sums of a row's lanes have LINE places.
// Barriers: one before the products of a chunk and one after the last. Accumulates in f32.
const ROWS = WORKGROUP / LANES;
const OUTPUTS = ROWS * TOKENS;
const CHUNKS = (BLOCKS + CHUNK - 1u) / CHUNK;
const STRIDE = CHUNK | 1u;           // odd, so that staging has no bank conflicts
const STAGERS = WORKGROUP / TOKENS;  // invocations that stage one token
const STAGED = (CHUNK * 8u + STAGERS - 1u) / STAGERS;  // vec4s of x that an invocation stages of a chunk

alias Staged = array<vec4<f32>, STAGED>;
alias Sums = array<f32, MATRICES * TOKENS>;
alias Blocks = array<Block, MATRICES>;

var<workgroup> xs: array<vec4<f32>, TOKENS * 8u * STRIDE>;
var<workgroup> partials: array<f32, MATRICES * OUTPUTS * LINE>;  // (matrix, row, token, lane)
var<workgroup> squares: array<f32, WORKGROUP>;                   // (token, stager)
var<workgroup> square_sums: array<f32, TOKENS * LINE>;

// Past the row's end x is 0, whatever the norm's weights are there.
fn fetch_x(chunk: u32, local: u32, x: ptr<function, Staged>, norm: ptr<function, Staged>) {
  for (var k = 0u; k < STAGED; k++) {
    let c = chunk * CHUNK * 8u + k * STAGERS + local % STAGERS;
    (*x)[k] = load_x4(local / STAGERS, c);
    if HAS_NORM != 0u {
      (*norm)[k] = norm_weight4(min(c, COLUMNS / 4u));
    }
  }
}
// Returns the squares of what this invocation has staged.
fn stage(local: u32, x: ptr<function, Staged>, norm: ptr<function, Staged>) -> f32 {
  let token = local / STAGERS;
  var squared = 0.0;
  for (var k = 0u; k < STAGED; k++) {
    let i = k * STAGERS + local % STAGERS;
    if i < CHUNK * 8u {
      var staged = (*x)[k];
      if HAS_NORM != 0u {
        squared += dot(staged, staged);
        staged *= (*norm)[k];
      }
      xs[(token * 8u + i % 8u) * STRIDE + i / 8u] = staged;
    }
  }
  return squared;
}

// What is staged of a token's block.
fn staged_block(token: u32, block: u32) -> array<vec4<f32>, 8> {
  let x = token * 8u * STRIDE + block;
  return array<vec4<f32>, 8>(xs[x], xs[x + STRIDE], xs[x + 2u * STRIDE], xs[x + 3u * STRIDE],
                             xs[x + 4u * STRIDE], xs[x + 5u * STRIDE], xs[x + 6u * STRIDE],
                             xs[x + 7u * STRIDE]);
}
fn product(weights: Block, x: array<vec4<f32>, 8>) -> f32 {
  let low = dot(weights.w[0], x[0]) + dot(weights.w[1], x[1]) + dot(weights.w[2], x[2]) +
            dot(weights.w[3], x[3]);
  let high = dot(weights.w[4], x[4]) + dot(weights.w[5], x[5]) + dot(weights.w[6], x[6]) +
             dot(weights.w[7], x[7]);
  return weights.scale.x * low + weights.scale.y * high;
}

fn fetch(matrix: u32, row: u32, block: u32, blocks: ptr<function, Blocks>) {
  for (var m = 0u; m < MATRICES; m++) {
    (*blocks)[m] = load_matrix(matrix + m, row, block);
  }
}

// `blocks` holds those that the lane begins the chunk with.
fn multiply_chunk(chunk: u32, token_rows: u32, matrix: u32, row: u32, lane: u32, blocks: ptr<function, Blocks>,
                  sums: ptr<function, Sums>) {
  let begin = chunk * CHUNK;
  let end = min(begin + CHUNK, BLOCKS);
  for (var block = begin + lane; block < end; block += LANES) {
    for (var t = 0u; t < TOKENS; t++) {
      if t < token_rows {
        let x_block = staged_block(t, block - begin);
        for (var m = 0u; m < MATRICES; m++) {
          (*sums)[m * TOKENS + t] += product((*blocks)[m], x_block);
        }
      }
    }
    if block + LANES < end {
      fetch(matrix, row, block + LANES, blocks);
    }
  }
}

fn share(value: f32, line: u32, lane: u32) {
  let sum = lane_sum(value);
  if lane % lanes_together() == 0u {
    partials[line * LINE + lane / lanes_together()] = sum;
  }
}
// The lanes of each row sum up the squares of some tokens.
fn share_squares(place: u32, lane: u32) {
  for (var k = 0u; k < TOKENS; k += ROWS) {
    let token = k + place;
    var part = 0.0;
    for (var i = lane; i < STAGERS && token < TOKENS; i += LANES) {
      part += squares[token * STAGERS + i];
    }
    let sum = lane_sum(part);
    if token < TOKENS && lane % lanes_together() == 0u {
      square_sums[token * LINE + lane / lanes_together()] = sum;
    }
  }
}

// After a barrier: the whole product of output (row of the set, token), x being normed.
fn product_of(matrix: u32, output: u32) -> f32 {
  var sum = 0.0;
  for (var i = 0u; i < LANES / lanes_together(); i++) {
    sum += partials[(matrix * OUTPUTS + output) * LINE + i];
  }
  return sum * norm_factor(output % TOKENS);
}
fn norm_factor(token: u32) -> f32 {
  if HAS_NORM == 0u {
    return 1.0;
  }
  var squared = 0.0;
  for (var i = 0u; i < LANES / lanes_together(); i++) {
    squared += square_sums[token * LINE + i];
  }
  return inverseSqrt(squared / f32(COLUMNS) + EPS);
}

fn matvec(index: u32, local: u32) {
  let lane = local % LANES;
  let place = local / LANES;
  let rows = row_set(index);
  let has_row = rows.begin + place < rows.end;
  let row = matrix_row(rows, place);
  var sums = Sums();
  var blocks = Blocks();
  var x = Staged();
  var norm = Staged();
  var squared = 0.0;
  let token_rows = min(run_rows(), TOKENS);
  let stopped = is_stopped();  // looked at when the rest has been asked for
  if has_row && lane < BLOCKS {
    fetch(rows.matrix, row, lane, &blocks);
  }
  if !X_IS_IN_PARTS {
    fetch_x(0u, local, &x, &norm);
  }
  prefetch(rows, local);
  if stopped {
    return;
  }
  if X_IS_IN_PARTS {
    prepare_x(local);
    fetch_x(0u, local, &x, &norm);
  }
  // CHUNKS; if it is more than 1 not as a constant, since some compilers would take long to unroll the loop.
  let chunk_count = select(CHUNKS * min(token_rows, 1u), 1u, CHUNKS == 1u);
  for (var chunk = 0u; chunk < chunk_count; chunk++) {
    if chunk > 0u {
      workgroupBarrier();
    }
    squared += stage(local, &x, &norm);
    squares[local] = squared;
    workgroupBarrier();
    let has_next = chunk + 1u < CHUNKS;
    if has_next {
      fetch_x(chunk + 1u, local, &x, &norm);
    }
    if has_row {
      multiply_chunk(chunk, token_rows, rows.matrix, row, lane, &blocks, &sums);
      if has_next && (chunk + 1u) * CHUNK + lane < BLOCKS {
        fetch(rows.matrix, row, (chunk + 1u) * CHUNK + lane, &blocks);
      }
    }
  }
  for (var m = 0u; m < MATRICES; m++) {
    for (var t = 0u; t < TOKENS; t++) {
      share(sums[m * TOKENS + t], m * OUTPUTS + place * TOKENS + t, lane);
    }
  }
  if HAS_NORM != 0u {
    share_squares(place, lane);
  }
  workgroupBarrier();
  finish(rows, local);
}
