// attention_decode: softmax(cap(scale * q[r, h] . K)) V over the tokens that row r sees, for a few rows, row i of
// sequence i. The context is split in RANGES; what becomes of each is put together by who reads the result.
// Layout: out: attention_parts.wgsl; cache: kv.wgsl.
// Dispatch: at least rows * KV_HEADS * TILES * RANGES workgroups, ranges innermost.
// Requires: HEAD_DIM even, at most 512; TILE_HEADS <= 4. prepare and query_at: attention_query.wgsl or
// attention_rope.wgsl. params: 1 out.
const COLUMNS = HEAD_DIM / 2u;          // of V, in pairs
const SLICES = 256u / COLUMNS;          // tokens that are weighed side by side
const CHUNKS = (HEAD_DIM + 7u) / 8u;    // of K, in eights
const TILE_TOKENS = select(64u, 128u, TILE_HEADS == 1u);
const UNROLL = 4u;                      // tokens of V that are fetched at a time

var<workgroup> queries: array<vec4<f32>, TILE_HEADS * CHUNKS * 2u>;
var<workgroup> scores: array<f32, TILE_HEADS * TILE_TOKENS>;
var<workgroup> slice_sums: array<vec2<f32>, TILE_HEADS * SLICES * COLUMNS>;
var<workgroup> slice_stats: array<vec2<f32>, TILE_HEADS * SLICES>;  // largest score, weight

struct Unit {  // what a workgroup computes
  row: u32,  // and sequence
  kv_head: u32,
  first_head: u32,
  head_count: u32,
}

fn unit_of(index: u32) -> Unit {
  let tile = index % TILES;
  let kv_head = index / TILES % KV_HEADS;
  let row = index / (TILES * KV_HEADS);
  let group = HEADS / KV_HEADS;
  return Unit(row, kv_head, kv_head * group + tile * TILE_HEADS,
              min(TILE_HEADS, group - tile * TILE_HEADS));
}

// Scaled queries, zeros past the last head and past the last element.
fn load_queries(unit: Unit, local: u32) {
  for (var i = local; i < TILE_HEADS * CHUNKS * 2u; i += 256u) {
    let head = i / (CHUNKS * 2u);
    let column = i % (CHUNKS * 2u) * 4u;
    var values = vec4<f32>();
    for (var j = 0u; j < 4u; j++) {
      if head < unit.head_count && column + j < HEAD_DIM {
        values[j] = query_at(unit, head, column + j) * SCALE;
      }
    }
    queries[i] = values;
  }
}

fn row_of(unit: Unit, is_value: u32, position: u32) -> u32 {
  return kv_row(page_of(unit.row, position), is_value, unit.kv_head, position);
}

fn score(unit: Unit, head: u32, position: u32) -> f32 {
  let row = row_of(unit, 0u, position);
  var sum = 0.0;
  for (var i = 0u; i < CHUNKS; i++) {
    let k = load_kv8(row, i);
    let q = (head * CHUNKS + i) * 2u;
    sum += dot(queries[q], k.low) + dot(queries[q + 1u], k.high);
  }
  return capped(sum);
}

// What a thread has of its column pair and slice: a running softmax for each head.
var<private> sums: array<vec2<f32>, TILE_HEADS>;
var<private> largest: array<f32, TILE_HEADS>;
var<private> weights: array<f32, TILE_HEADS>;
var<private> values: array<vec2<f32>, UNROLL>;

// V of UNROLL tokens of the slice; past the tile's last, that one's.
fn fetch_values(unit: Unit, tile_begin: u32, token_count: u32, first: u32, column: u32) {
  for (var k = 0u; k < UNROLL; k++) {
    let t = min(first + k * SLICES, token_count - 1u);
    values[k] = load_kv2(row_of(unit, 1u, tile_begin + t), column);
  }
}

// The first of them have been fetched.
fn weigh_values(unit: Unit, tile_begin: u32, token_count: u32, column: u32, slice: u32) {
  for (var h = 0u; h < TILE_HEADS; h++) {
    var most = largest[h];
    for (var t = slice; t < token_count; t += SLICES) {
      most = max(most, scores[h * TILE_TOKENS + t]);
    }
    let kept = weight_of(largest[h] - most);
    sums[h] *= kept;
    weights[h] *= kept;
    largest[h] = most;
  }
  for (var first = slice; first < token_count; first += UNROLL * SLICES) {
    if first > slice {
      fetch_values(unit, tile_begin, token_count, first, column);
    }
    for (var k = 0u; k < UNROLL; k++) {
      let t = first + k * SLICES;
      for (var h = 0u; h < TILE_HEADS; h++) {
        var weight = 0.0;
        if t < token_count {
          weight = weight_of(scores[h * TILE_TOKENS + t] - largest[h]);
        }
        sums[h] += weight * values[k];
        weights[h] += weight;
      }
    }
  }
}

// One head's column pair over all slices: the sums, the largest score, the weight.
fn merge_slices(head: u32, column: u32) -> vec4<f32> {
  var most = LEAST;
  for (var s = 0u; s < SLICES; s++) {
    most = max(most, slice_stats[head * SLICES + s].x);
  }
  var sum = vec2<f32>();
  var weight = 0.0;
  for (var s = 0u; s < SLICES; s++) {
    let stat = slice_stats[head * SLICES + s];
    let factor = weight_of(stat.x - most);
    sum += factor * slice_sums[(head * SLICES + s) * COLUMNS + column];
    weight += factor * stat.y;
  }
  return vec4(sum, most, weight);
}

fn attend(group: u32, local: u32) {
  let unit = unit_of(group / RANGES);
  let range = group % RANGES;
  let position = row_position(unit.row);
  let ranges = ranges_of(position);
  if range >= ranges.count || unit.row >= token_count() || is_stopped() {
    return;
  }
  let range_begin = ranges.begin + range * ranges.tokens;
  let range_end = min(range_begin + ranges.tokens, position + 1u);
  prepare(unit, range + 1u == ranges.count, local);
  load_queries(unit, local);
  let column = local % COLUMNS;
  let slice = local / COLUMNS;
  for (var h = 0u; h < TILE_HEADS; h++) {
    sums[h] = vec2<f32>();
    weights[h] = 0.0;
    largest[h] = LEAST;
  }
  for (var tile = range_begin; tile < range_end; tile += TILE_TOKENS) {
    let token_count = min(TILE_TOKENS, range_end - tile);
    if slice < SLICES {
      fetch_values(unit, tile, token_count, slice, column);
    }
    workgroupBarrier();
    for (var i = local; i < TILE_HEADS * TILE_TOKENS; i += 256u) {
      if i % TILE_TOKENS < token_count {
        scores[i] = score(unit, i / TILE_TOKENS, tile + i % TILE_TOKENS);
      }
    }
    workgroupBarrier();
    if slice < SLICES {
      weigh_values(unit, tile, token_count, column, slice);
    }
  }
  if slice < SLICES {
    for (var h = 0u; h < TILE_HEADS; h++) {
      slice_sums[(h * SLICES + slice) * COLUMNS + column] = sums[h];
      if column == 0u {
        slice_stats[h * SLICES + slice] = vec2(largest[h], weights[h]);
      }
    }
  }
  workgroupBarrier();
  finish(unit, range, local);
}

fn finish(unit: Unit, range: u32, local: u32) {
  for (var i = local; i < unit.head_count * COLUMNS; i += 256u) {
    let head = unit.first_head + i / COLUMNS;
    let merged = merge_slices(i / COLUMNS, i % COLUMNS);
    let at = param(1u) + part_at(unit.row, range, head) + 2u * (i % COLUMNS);
    store_act(at, merged.x);
    store_act(at + 1u, merged.y);
    if i % COLUMNS == 0u {
      let stat = param(1u) + stat_at(unit.row, range, head);
      store_act(stat, merged.z);
      store_act(stat + 1u, merged.w);
    }
  }
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  attend(group.y * groups.x + group.x, local);
}
