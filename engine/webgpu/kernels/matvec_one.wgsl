// matvec_one: products of one token row with the rows of a matrix, with what comes before (RMSNorm) and after
// (an epilogue) in the same dispatch. A dispatch of a few microseconds is all latency, so nothing waits for
// anything it need not: each lane fetches its weights and its part of x at once, and what the epilogue needs;
// the one barrier is before the sums.
// Layout:   x (COLUMNS); weights in planes (webgpu/weight_layout.h).
// Dispatch: a workgroup of WORKGROUP invocations for each set of ROWS weight rows, LANES invocations
//           a row, each of them every LANES-th block of 32 columns.
// Params, and what it is joined by: as matvec.wgsl.
const ROWS = WORKGROUP / LANES;
const OUTPUTS = ROWS;
const LINE = LANES + 1u;  // odd, so that sums have no bank conflicts

alias Sums = array<f32, MATRICES>;
alias XBlock = array<vec4<f32>, 8>;

var<workgroup> partials: array<f32, MATRICES * OUTPUTS * LINE>;  // (matrix, row, lane)
var<workgroup> square_sums: array<f32, LINE>;

fn load_x_block(block: u32) -> XBlock {
  let c = 8u * block;
  return XBlock(load_x4(0u, c), load_x4(0u, c + 1u), load_x4(0u, c + 2u), load_x4(0u, c + 3u),
                load_x4(0u, c + 4u), load_x4(0u, c + 5u), load_x4(0u, c + 6u), load_x4(0u, c + 7u));
}
fn normed(x: XBlock, block: u32) -> XBlock {
  let c = 8u * block;
  return XBlock(x[0] * norm_weight4(c), x[1] * norm_weight4(c + 1u), x[2] * norm_weight4(c + 2u),
                x[3] * norm_weight4(c + 3u), x[4] * norm_weight4(c + 4u), x[5] * norm_weight4(c + 5u),
                x[6] * norm_weight4(c + 6u), x[7] * norm_weight4(c + 7u));
}
fn squares_of(x: XBlock) -> f32 {
  return dot(x[0], x[0]) + dot(x[1], x[1]) + dot(x[2], x[2]) + dot(x[3], x[3]) +
         (dot(x[4], x[4]) + dot(x[5], x[5]) + dot(x[6], x[6]) + dot(x[7], x[7]));
}
fn product(weights: Block, x: XBlock) -> f32 {
  let low = dot(weights.w[0], x[0]) + dot(weights.w[1], x[1]) + dot(weights.w[2], x[2]) +
            dot(weights.w[3], x[3]);
  let high = dot(weights.w[4], x[4]) + dot(weights.w[5], x[5]) + dot(weights.w[6], x[6]) +
             dot(weights.w[7], x[7]);
  return weights.scale.x * low + weights.scale.y * high;
}

// Returns the lane's squares of x.
fn multiply(matrix: u32, row: u32, lane: u32, sums: ptr<function, Sums>) -> f32 {
  var squared = 0.0;
  for (var block = lane; block < BLOCKS; block += LANES) {
    var x = load_x_block(block);
    if HAS_NORM != 0u {
      squared += squares_of(x);
      x = normed(x, block);
    }
    for (var m = 0u; m < MATRICES; m++) {
      (*sums)[m] += product(load_matrix(matrix + m, row, block), x);
    }
  }
  return squared;
}

fn share(value: f32, line: u32, lane: u32) {
  let sum = lane_sum(value);
  if lane % lanes_together() == 0u {
    partials[line + lane / lanes_together()] = sum;
  }
}

// After a barrier: the whole product of a row of the set, x being normed.
fn product_of(matrix: u32, output: u32) -> f32 {
  let count = LANES / lanes_together();
  var sum = 0.0;
  for (var i = 0u; i < count; i++) {
    sum += partials[(matrix * OUTPUTS + output) * LINE + i];
  }
  if HAS_NORM == 0u {
    return sum;
  }
  var squared = 0.0;
  for (var i = 0u; i < count; i++) {
    squared += square_sums[i];
  }
  return sum * inverseSqrt(squared / f32(COLUMNS) + EPS);
}

fn matvec(index: u32, local: u32) {
  let lane = local % LANES;
  let place = local / LANES;
  let rows = row_set(index);
  prefetch(rows, local);
  var sums = Sums();
  var squared = 0.0;
  if rows.begin + place < rows.end {
    squared = multiply(rows.matrix, matrix_row(rows, place), lane, &sums);
  }
  for (var m = 0u; m < MATRICES; m++) {
    share(sums[m], (m * OUTPUTS + place) * LINE, lane);
  }
  if HAS_NORM != 0u {
    let sum = lane_sum(squared);
    if place == 0u && lane % lanes_together() == 0u {
      square_sums[lane / lanes_together()] = sum;
    }
  }
  workgroupBarrier();
  finish(rows, local);
}
