// matvec_one: products of one token row with the rows of a matrix, with what comes before (RMSNorm) and after
// (an epilogue) in the same dispatch. A dispatch of a few microseconds is all latency, so what comes from memory
// is asked for at once: x, the first block of weights, and what the epilogue needs.
// Layout:   x (COLUMNS); weights in planes (webgpu/weight_layout.h).
// Dispatch: a workgroup of WORKGROUP invocations for each set of ROWS weight rows, LANES invocations
//           a row, each of them every LANES-th block of 32 columns.
// x is staged in workgroup memory CHUNK blocks at a time, column 4 g + k of block b at vec4 (g, b): lanes with
// neighbouring blocks then read neighbouring vec4s.
// Params, LINE, and what it is joined by: as matvec.wgsl. With little to hold, each matrix reads x anew: of
// fewer registers a core holds more workgroups.
// Barriers: one before the products of a chunk and one after the last. Accumulates in f32.
const ROWS = WORKGROUP / LANES;
const OUTPUTS = ROWS;
const CHUNKS = (BLOCKS + CHUNK - 1u) / CHUNK;
const STRIDE = CHUNK | 1u;  // odd, so that staging has no bank conflicts
const STAGED = (CHUNK * 8u + WORKGROUP - 1u) / WORKGROUP;  // vec4s of x that an invocation stages of a chunk

alias Staged = array<vec4<f32>, STAGED>;
alias Sums = array<f32, MATRICES>;
alias Blocks = array<Block, MATRICES>;

var<workgroup> xs: array<vec4<f32>, 8u * STRIDE>;
var<workgroup> partials: array<f32, MATRICES * OUTPUTS * LINE>;  // (matrix, row, lane)
var<workgroup> squares: array<f32, WORKGROUP>;
var<workgroup> square_sums: array<f32, LINE>;

// Past the row's end x is 0, whatever the norm's weights are there.
fn fetch_x(chunk: u32, local: u32, x: ptr<function, Staged>, norm: ptr<function, Staged>) {
  for (var k = 0u; k < STAGED; k++) {
    let c = chunk * CHUNK * 8u + k * WORKGROUP + local;
    (*x)[k] = load_x4(0u, c);
    if HAS_NORM != 0u {
      (*norm)[k] = norm_weight4(min(c, COLUMNS / 4u));
    }
  }
}
// Returns the squares of what this invocation has staged.
fn stage(local: u32, x: ptr<function, Staged>, norm: ptr<function, Staged>) -> f32 {
  var squared = 0.0;
  for (var k = 0u; k < STAGED; k++) {
    let i = k * WORKGROUP + local;
    if i < CHUNK * 8u {
      var staged = (*x)[k];
      if HAS_NORM != 0u {
        squared += dot(staged, staged);
        staged *= (*norm)[k];
      }
      xs[i % 8u * STRIDE + i / 8u] = staged;
    }
  }
  return squared;
}

fn product(weights: Block, staged: u32) -> f32 {
  let low = dot(weights.w[0], xs[staged]) + dot(weights.w[1], xs[staged + STRIDE]) +
            dot(weights.w[2], xs[staged + 2u * STRIDE]) + dot(weights.w[3], xs[staged + 3u * STRIDE]);
  let high = dot(weights.w[4], xs[staged + 4u * STRIDE]) + dot(weights.w[5], xs[staged + 5u * STRIDE]) +
             dot(weights.w[6], xs[staged + 6u * STRIDE]) + dot(weights.w[7], xs[staged + 7u * STRIDE]);
  return weights.scale.x * low + weights.scale.y * high;
}

fn fetch(matrix: u32, row: u32, block: u32, blocks: ptr<function, Blocks>) {
  for (var m = 0u; m < MATRICES; m++) {
    (*blocks)[m] = load_matrix(matrix + m, row, block);
  }
}

// `blocks` holds those that the lane begins the chunk with.
fn multiply_chunk(chunk: u32, matrix: u32, row: u32, lane: u32, blocks: ptr<function, Blocks>,
                  sums: ptr<function, Sums>) {
  let begin = chunk * CHUNK;
  let end = min(begin + CHUNK, BLOCKS);
  for (var block = begin + lane; block < end; block += LANES) {
    for (var m = 0u; m < MATRICES; m++) {
      (*sums)[m] += product((*blocks)[m], block - begin);
    }
    if block + LANES < end {
      fetch(matrix, row, block + LANES, blocks);
    }
  }
}

fn share(value: f32, line: u32, lane: u32) {
  let sum = lane_sum(value);
  if lane % lanes_together() == 0u {
    partials[line + lane / lanes_together()] = sum;
  }
}
fn share_squares(place: u32, lane: u32) {
  var part = 0.0;
  for (var i = lane; i < WORKGROUP; i += LANES) {
    part += squares[i];
  }
  let sum = lane_sum(part);
  if place == 0u && lane % lanes_together() == 0u {
    square_sums[lane / lanes_together()] = sum;
  }
}

// After a barrier: the whole product of a row of the set, x being normed.
fn product_of(matrix: u32, output: u32) -> f32 {
  var sum = 0.0;
  for (var i = 0u; i < LANES / lanes_together(); i++) {
    sum += partials[(matrix * OUTPUTS + output) * LINE + i];
  }
  return sum * norm_factor(0u);
}
fn norm_factor(token: u32) -> f32 {
  if HAS_NORM == 0u {
    return 1.0;
  }
  var squared = 0.0;
  for (var i = 0u; i < LANES / lanes_together(); i++) {
    squared += square_sums[i];
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
  for (var chunk = 0u; chunk < CHUNKS; chunk++) {
    if chunk > 0u {
      fetch_x(chunk, local, &x, &norm);
      if has_row && chunk * CHUNK + lane < BLOCKS {
        fetch(rows.matrix, row, chunk * CHUNK + lane, &blocks);
      }
      workgroupBarrier();
    }
    squared += stage(local, &x, &norm);
    squares[local] = squared;
    workgroupBarrier();
    if has_row {
      multiply_chunk(chunk, rows.matrix, row, lane, &blocks, &sums);
    }
  }
  for (var m = 0u; m < MATRICES; m++) {
    share(sums[m], (m * OUTPUTS + place) * LINE, lane);
  }
  if HAS_NORM != 0u {
    share_squares(place, lane);
  }
  workgroupBarrier();
  finish(rows, local);
}
