// attention_prefill: as attention_decode, for the rows of prompts, which are at neighbouring positions of each
// sequence. A tile of queries, (token, head of the group) pairs of a sequence, meets the cache in tiles of keys with
// a running softmax.
// Layout: q, y (rows, HEADS, HEAD_DIM); cache: kv.wgsl.
// Dispatch: at least KV_HEADS workgroups for each tile, ceil(rows * group / TILE_QUERIES) of each sequence.
// Requires: HEAD_DIM even, at most 512. params: q, y.
// A thread has four queries, and of them the scores with one key, then two columns of the result.
const COLUMNS = HEAD_DIM / 2u;
const QUADS = 256u / COLUMNS;  // of queries
const TILE_QUERIES = 4u * QUADS;
const CHUNKS = (HEAD_DIM + 7u) / 8u;
// The largest power of two up to COLUMNS, so that a tile of keys lies in one page.
const TILE_KEYS = 1u << (31u - countLeadingZeros(COLUMNS));
const GROUP = HEADS / KV_HEADS;
const UNROLL = min(4u, TILE_KEYS);  // tokens of V that are fetched at a time

var<workgroup> queries: array<vec4<f32>, TILE_QUERIES * CHUNKS * 2u>;
var<workgroup> scores: array<vec4<f32>, TILE_KEYS * QUADS>;   // of a quad of queries
var<workgroup> weights: array<vec4<f32>, TILE_KEYS * QUADS>;  // exp(score - largest)

struct Tile {
  kv_head: u32,
  sequence: u32,
  first_row: u32,    // of the sequence
  query_count: u32,  // likewise; 0: there is no such tile
  first_query: u32,
}

fn tile_of(index: u32) -> Tile {
  var tile = index / KV_HEADS;
  for (var sequence = 0u; sequence < PROMPTS; sequence++) {
    let first_row = prompt_first_row(sequence);
    let query_count = (prompt_first_row(sequence + 1u) - first_row) * GROUP;
    let tiles = (query_count + TILE_QUERIES - 1u) / TILE_QUERIES;
    if tile < tiles {
      return Tile(index % KV_HEADS, sequence, first_row, query_count, tile * TILE_QUERIES);
    }
    tile -= tiles;
  }
  return Tile();
}

fn position_of(tile: Tile, query: u32) -> u32 {
  return row_position(tile.first_row + min(tile.first_query + query, tile.query_count - 1u) / GROUP);
}

// Of the tile's query: where its head begins in q and y.
fn element_of(tile: Tile, query: u32) -> u32 {
  let q = tile.first_query + query;
  return ((tile.first_row + q / GROUP) * HEADS + tile.kv_head * GROUP + q % GROUP) * HEAD_DIM;
}

fn load_queries(tile: Tile, local: u32) {
  for (var i = local; i < TILE_QUERIES * CHUNKS * 2u; i += 256u) {
    let query = i / (CHUNKS * 2u);
    let column = i % (CHUNKS * 2u) * 4u;
    var values = vec4<f32>();
    for (var j = 0u; j < 4u; j++) {
      if tile.first_query + query < tile.query_count && column + j < HEAD_DIM {
        values[j] = load_act(param(0u) + element_of(tile, query) + column + j) * SCALE;
      }
    }
    queries[i] = values;
  }
}

// The scores of four queries with one key; LEAST where a query does not see it.
fn score(tile: Tile, quad: u32, row: u32, key: u32) -> vec4<f32> {
  var sum = vec4<f32>();
  for (var i = 0u; i < CHUNKS; i++) {
    let k = load_kv8(row, i);
    for (var j = 0u; j < 4u; j++) {
      let q = ((4u * quad + j) * CHUNKS + i) * 2u;
      sum[j] += dot(queries[q], k.low) + dot(queries[q + 1u], k.high);
    }
  }
  for (var j = 0u; j < 4u; j++) {
    let position = position_of(tile, 4u * quad + j);
    let is_seen = key <= position && key >= first_seen(position);
    sum[j] = select(LEAST, capped(sum[j]), is_seen);
  }
  return sum;
}

fn weights_of(x: vec4<f32>) -> vec4<f32> {
  return exp(max(x, vec4(-87.0)));
}

fn attend(index: u32, local: u32) {
  let tile = tile_of(index);
  if tile.query_count == 0u {
    return;
  }
  let quad = local / COLUMNS;
  let column = local % COLUMNS;
  let is_active = quad < QUADS;
  let end = position_of(tile, TILE_QUERIES - 1u) + 1u;
  let begin = first_seen(position_of(tile, 0u)) / TILE_KEYS * TILE_KEYS;
  load_queries(tile, local);
  workgroupBarrier();
  var left = vec4<f32>();   // the even column of four queries
  var right = vec4<f32>();  // the odd one
  var largest = vec4(LEAST);
  var weight = vec4<f32>();
  for (var key = begin; key < end; key += TILE_KEYS) {
    let page = page_of(tile.sequence, key);
    let at = column * QUADS + quad;  // of this thread's key
    if is_active && column < TILE_KEYS {
      let row = kv_row(page, 0u, tile.kv_head, key + column);
      scores[at] = score(tile, quad, row, key + column);
    }
    workgroupBarrier();
    if is_active {
      var most = largest;
      for (var n = 0u; n < TILE_KEYS; n++) {
        most = max(most, scores[n * QUADS + quad]);
      }
      let kept = weights_of(largest - most);
      left *= kept;
      right *= kept;
      weight *= kept;
      largest = most;
      if column < TILE_KEYS {
        // A query that has seen no key yet must not weigh those it does not see.
        let seen = scores[at] > vec4(LEAST);
        weights[at] = select(vec4<f32>(), weights_of(scores[at] - most), seen);
      }
    }
    workgroupBarrier();
    if is_active {
      // Keys past the last that any query sees weigh nothing; their page is there.
      for (var first = 0u; first < min(TILE_KEYS, end - key); first += UNROLL) {
        var v: array<vec2<f32>, UNROLL>;
        for (var k = 0u; k < UNROLL; k++) {
          v[k] = load_kv2(kv_row(page, 1u, tile.kv_head, key + first + k), column);
        }
        for (var k = 0u; k < UNROLL; k++) {
          let p = weights[(first + k) * QUADS + quad];
          // What lies there is no number, perhaps.
          let seen = select(vec2<f32>(), v[k], key + first + k < end);
          left += p * seen.x;
          right += p * seen.y;
          weight += p;
        }
      }
    }
  }
  if !is_active {
    return;
  }
  for (var j = 0u; j < 4u; j++) {
    let query = 4u * quad + j;
    if tile.first_query + query < tile.query_count {
      let y = param(1u) + element_of(tile, query) + 2u * column;
      store_act(y, left[j] / weight[j]);
      store_act(y + 1u, right[j] / weight[j]);
    }
  }
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  attend(group.y * groups.x + group.x, local);
}
