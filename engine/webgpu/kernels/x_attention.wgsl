// Columns 4 c .. 4 c + 3 of a row of x, which attention has left in parts (attention_parts.wgsl).
// HEAD_DIM % 4 == 0.
const X_IS_IN_PARTS = true;
const FACTORS = HEADS * RANGES;  // of a token: (range, head)
const PARTS_UNROLL = 4u;         // parts that are fetched at a time

var<workgroup> part_stats: array<vec2<f32>, TOKENS * FACTORS>;
var<workgroup> part_factors: array<f32, TOKENS * FACTORS>;  // what each part's sums are multiplied by
var<workgroup> part_counts: array<u32, TOKENS>;

fn load_stat(row: u32, range: u32, head: u32) -> vec2<f32> {
  let at = stat_at(row, range, head);
  let both = load_act4(at / 4u);
  return select(both.xy, both.zw, at % 4u != 0u);
}

fn load_stats(local: u32) {
  for (var i = local; i < TOKENS * FACTORS; i += WORKGROUP) {
    let token = i / FACTORS;
    let range = i / HEADS % RANGES;
    // Both at once: what lies where there is no range is not looked at.
    let stat = load_stat(token, range, i % HEADS);
    let count = ranges_of(row_position(token)).count;
    part_counts[token] = count;
    part_stats[i] = select(vec2(LEAST, 0.0), stat, range < count && token < run_rows());
  }
}

// Parts that there are not have the factor 0. Ends with a barrier.
fn prepare_x(local: u32) {
  load_stats(local);
  workgroupBarrier();
  for (var i = local; i < TOKENS * FACTORS; i += WORKGROUP) {
    let first = i / FACTORS * FACTORS + i % HEADS;
    var most = LEAST;
    for (var range = 0u; range < RANGES; range++) {
      most = max(most, part_stats[first + range * HEADS].x);
    }
    var weight = 0.0;
    for (var range = 0u; range < RANGES; range++) {
      let stat = part_stats[first + range * HEADS];
      weight += weight_of(stat.x - most) * stat.y;
    }
    let stat = part_stats[i];
    part_factors[i] = select(0.0, weight_of(stat.x - most) / weight, stat.y > 0.0);
  }
  workgroupBarrier();
}

fn load_x4(token: u32, c: u32) -> vec4<f32> {
  if c >= COLUMNS / 4u || token >= run_rows() {
    return vec4<f32>();
  }
  let head = 4u * c / HEAD_DIM;
  let count = part_counts[token];
  var sum = vec4<f32>();
  for (var first = 0u; first < count; first += PARTS_UNROLL) {
    var parts: array<vec4<f32>, PARTS_UNROLL>;
    for (var k = 0u; k < PARTS_UNROLL; k++) {
      let range = min(first + k, count - 1u);
      parts[k] = load_act4((part_at(token, range, head) + 4u * c % HEAD_DIM) / 4u);
    }
    for (var k = 0u; k < PARTS_UNROLL; k++) {
      if first + k < count {
        sum += part_factors[token * FACTORS + (first + k) * HEADS + head] * parts[k];
      }
    }
  }
  return sum;
}
