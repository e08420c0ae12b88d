// resident: all layers of a model for a token of each row, in one dispatch. A team of workgroups has up to TEAM_ROWS
// rows, and nothing to do with other teams. Its workgroups are all there at once and hand results on through `relay`
// as soon as they have them: no word of it is written twice in a run, one that is not written yet is 0 (a result of 0
// is written as -0), and who needs it looks until it is there. So nobody waits for a whole phase, only for what it
// reads; and what a phase reads of weights and of the cache is asked for before it looks for its input.
// WGSL does not promise that workgroups run side by side, so nobody looks for ever (PATIENCE): what has not come
// is not a number, and so is all that follows from it, the logits too. Who has given up waits no more.
// What is alike for all rows of a team is computed for all at once, with a component for each (team_1.wgsl and others);
// should the team have fewer, the last one is computed several times over.
// Layout:   relay: GAVE_UP, RUNS, FINISHED of each team; then of each team two halves by turns: while one is used, the
//           other is cleared. In a half, of each row and layer: q | k | v before rotation, attention's parts
//           (attention_parts.wgsl), x after attention, the FFN's products, x after the FFN.
// Dispatch: for each team the same number of workgroups, as many as run at the same time.
// Params:   0 x, in and out; 1 frequencies; 2 the first team's number in the relay; 3 where halves begin behind HALVES;
//           then of each layer 16 words: 0 q, 1 k, 2 v, 3 o, 4 gate, 5 up,
//           6 down (first vec4 in a window), 7 windows (2 bits each), 8 norm of attention, 9 of the FFN, 10 .. 12 biases
//           of q, k, v, 13 the layer's place in a page of the cache, 14 a page's words.
// Requires: subgroups of LEAST_WIDTH lanes or more, LEAST_WIDTH >= HEAD_DIM / 8, which is a power of two; COLUMNS,
//           Q_ROWS, FFN multiples of 32.
const WORKGROUP = 256u;
const RANGE_STEP = SLOTS;
const PART_ROWS = 1u;
const TEAMS = 16u;
const GAVE_UP = 0u;
const RUNS = TEAMS;
const FINISHED = 2u * TEAMS;
const HALVES = 4u * TEAMS;
const PATIENCE = 20000u;  // looks, of an invocation in a layer: a few to some ten ms

const AT_PARTS = Q_ROWS + 2u * KV_ROWS;
const AT_ATTENDED = AT_PARTS + RANGES * HEADS * (HEAD_DIM + 2u);
const AT_FFN = AT_ATTENDED + COLUMNS;
const AT_OUT = AT_FFN + FFN;
const LAYER_WORDS = AT_OUT + COLUMNS;
const ROW_WORDS = LAYERS * LAYER_WORDS;
const HALF_WORDS = TEAM_ROWS * ROW_WORDS;

const QKV_SETS = (Q_ROWS + 2u * KV_ROWS) / ROWS_qkv;
const LANES_TOGETHER = 32u;
const LINES = WORKGROUP / min(LEAST_WIDTH, LANES_TOGETHER);
const PARTIALS = WORKGROUP / min(LEAST_WIDTH, LEAST_LANES);

// A product's input, column c of block b at c * STRIDE + b; or of attention (line, element).
var<workgroup> xs: array<TeamF32, XS>;
var<workgroup> partials: array<TeamF32, 2u * PARTIALS>;  // (matrix, row of the set, lanes that were not added by shuffles)
var<workgroup> square_parts: array<TeamF32, LINES>;
var<workgroup> layer_words: array<u32, 16u * LAYERS>;   // params of the layers
var<workgroup> turns: array<vec2<f32>, TEAM_ROWS * max(ROPE_PAIRS, 1u)>;
var<workgroup> is_useless: u32;  // runs have failed before
var<workgroup> has_failed: atomic<u32>;

var<private> first_row: u32;   // of this team
var<private> row_count: u32;
var<private> half_at: u32;
var<private> part_counts: TeamU32;  // ranges of attention
var<private> patience: u32;
var<private> gave_up: bool;
var<private> subgroup_width: u32;

fn layer_word(layer: u32, i: u32) -> u32 {
  return layer_words[16u * layer + i];
}
fn window_of(layer: u32, matrix: u32) -> u32 {
  return (layer_word(layer, 7u) >> (2u * matrix)) & 3u;
}
fn relay_at(r: u32, layer: u32, place: u32) -> u32 {
  return half_at + r * ROW_WORDS + layer * LAYER_WORDS + place;
}
fn relay_rows(layer: u32, place: u32) -> TeamU32 {
  return half_at + rows_apart(ROW_WORDS) + layer * LAYER_WORDS + place;
}
fn x_rows(column: u32) -> TeamU32 {
  return param(0u) + first_row * COLUMNS + rows_apart(COLUMNS) + column;
}

fn put(at: u32, value: f32) {
  let bits = bitcast<u32>(value);
  atomicStore(&relay[at], select(bits, 0x80000000u, bits == 0u));
}
// Whether to look again at words of which not all are there.
fn waits(are_there: bool) -> bool {
  if are_there {
    return false;
  }
  if patience == 0u {
    gave_up = true;
    return false;
  }
  patience--;
  return true;
}
fn look(at: u32) -> u32 {
  return atomicLoad(&relay[at]);
}
// What is not there yet is looked for together: one look after the other would take a trip each.
fn take2(first: u32, second: u32) -> vec2<f32> {
  var bits = vec2<u32>();
  loop {
    bits = vec2(look(first), look(second));
    if !waits(all(bits != vec2<u32>())) {
      break;
    }
  }
  return bitcast<vec2<f32>>(bits);
}

fn together() -> u32 {
  return min(LANES_TOGETHER, subgroup_width);
}
// Over `lanes` neighbours, or those of them that shuffles reach.
fn shuffled_sum(value: f32, lanes: u32) -> f32 {
  var sum = value;
  for (var k = 1u; k < min(lanes, LANES_TOGETHER); k *= 2u) {
    let other = subgroupShuffleXor(sum, k);
    sum += select(0.0, other, k < subgroup_width);
  }
  return sum;
}
// After a barrier: of a weight row's lanes.
fn shared_sum(matrix: u32, lanes: u32, place: u32) -> TeamF32 {
  let count = lanes / min(lanes, together());
  var sum = TeamF32();
  for (var i = 0u; i < count; i++) {
    sum += partials[matrix * PARTIALS + place * count + i];
  }
  return sum;
}
fn norm_factor() -> TeamF32 {
  var squared = TeamF32();
  for (var i = 0u; i < WORKGROUP / together(); i++) {
    squared += square_parts[i];
  }
  return inverseSqrt(squared / f32(COLUMNS) + EPS);
}

fn product4(w: vec4<f32>, at: u32, stride: u32) -> TeamF32 {
  return w.x * xs[at] + w.y * xs[at + stride] + w.z * xs[at + 2u * stride] + w.w * xs[at + 3u * stride];
}
fn block_product(weights: Block, block: u32, stride: u32) -> TeamF32 {
  let low = product4(weights.w[0], block, stride) + product4(weights.w[1], block + 4u * stride, stride) +
            product4(weights.w[2], block + 8u * stride, stride) + product4(weights.w[3], block + 12u * stride, stride);
  let high = product4(weights.w[4], block + 16u * stride, stride) + product4(weights.w[5], block + 20u * stride, stride) +
             product4(weights.w[6], block + 24u * stride, stride) + product4(weights.w[7], block + 28u * stride, stride);
  return weights.scale.x * low + weights.scale.y * high;
}

// Of two matrices.
struct Pair {
  a: TeamF32,
  b: TeamF32,
}
fn both4(a: vec4<f32>, b: vec4<f32>, at: u32, stride: u32) -> Pair {
  let x = xs[at];
  let y = xs[at + stride];
  let z = xs[at + 2u * stride];
  let w = xs[at + 3u * stride];
  return Pair(a.x * x + a.y * y + a.z * z + a.w * w, b.x * x + b.y * y + b.z * z + b.w * w);
}
fn added4(p: Pair, q: Pair, r: Pair, s: Pair) -> Pair {
  return Pair(p.a + q.a + r.a + s.a, p.b + q.b + r.b + s.b);
}
fn block_products(a: Block, b: Block, block: u32, stride: u32) -> Pair {
  let low = added4(both4(a.w[0], b.w[0], block, stride), both4(a.w[1], b.w[1], block + 4u * stride, stride),
                   both4(a.w[2], b.w[2], block + 8u * stride, stride), both4(a.w[3], b.w[3], block + 12u * stride, stride));
  let high = added4(both4(a.w[4], b.w[4], block + 16u * stride, stride), both4(a.w[5], b.w[5], block + 20u * stride, stride),
                    both4(a.w[6], b.w[6], block + 24u * stride, stride), both4(a.w[7], b.w[7], block + 28u * stride, stride));
  return Pair(a.scale.x * low.a + a.scale.y * high.a, b.scale.x * low.b + b.scale.y * high.b);
}

// Of an invocation: products of the matrices, squares of what it has staged.
struct Sums {
  a: TeamF32,
  b: TeamF32,
  squared: TeamF32,
}

// ---- Q, K and V
struct Rows {
  matrix: u32,
  begin: u32,
}
fn rows_qkv(row_set: u32) -> Rows {
  let row = row_set * ROWS_qkv;
  if row < Q_ROWS {
    return Rows(0u, row);
  }
  if row < Q_ROWS + KV_ROWS {
    return Rows(1u, row - Q_ROWS);
  }
  return Rows(2u, row - Q_ROWS - KV_ROWS);
}
fn look_qkv(layer: u32, column: u32) -> TeamU32 {
  if layer == 0u {
    return load_x(x_rows(column));
  }
  return look_rows(relay_rows(layer - 1u, AT_OUT + column));
}
fn norm_qkv(layer: u32, column: u32) -> f32 {
  return load_vector(layer_word(layer, 8u) + column);
}
fn operand_qkv(layer: u32, row: u32) -> TeamU32 {
  return TeamU32(1u);
}
fn finish_qkv(layer: u32, rows: Rows, place: u32, a: TeamF32, b: TeamF32, operand: TeamU32) {
  let row = rows.begin + place;
  var value = a * norm_factor();
  if (BIASES & (1u << rows.matrix)) != 0u {
    value += load_vector(layer_word(layer, 10u + rows.matrix) + row);
  }
  let at = select(select(0u, Q_ROWS, rows.matrix == 1u), Q_ROWS + KV_ROWS, rows.matrix == 2u);
  put_rows(relay_rows(layer, at + row), value);
}

// ---- gate and up
fn rows_gate(row_set: u32) -> Rows {
  return Rows(4u, row_set * ROWS_gate);
}
fn look_gate(layer: u32, column: u32) -> TeamU32 {
  return look_rows(relay_rows(layer, AT_ATTENDED + column));
}
fn norm_gate(layer: u32, column: u32) -> f32 {
  return load_vector(layer_word(layer, 9u) + column);
}
fn operand_gate(layer: u32, row: u32) -> TeamU32 {
  return TeamU32(1u);
}
fn finish_gate(layer: u32, rows: Rows, place: u32, a: TeamF32, b: TeamF32, operand: TeamU32) {
  let factor = norm_factor();
  put_rows(relay_rows(layer, AT_FFN + rows.begin + place), epilogue_rows(a * factor, b * factor));
}

// ---- down
fn rows_down(row_set: u32) -> Rows {
  return Rows(6u, row_set * ROWS_down);
}
fn look_down(layer: u32, column: u32) -> TeamU32 {
  return look_rows(relay_rows(layer, AT_FFN + column));
}
fn norm_down(layer: u32, column: u32) -> f32 {
  return 1.0;
}
fn operand_down(layer: u32, row: u32) -> TeamU32 {
  return look_gate(layer, row);
}
fn finish_down(layer: u32, rows: Rows, place: u32, a: TeamF32, b: TeamF32, operand: TeamU32) {
  let row = rows.begin + place;
  let value = bitcast<TeamF32>(operand) + a;
  if layer + 1u == LAYERS {
    store_x(x_rows(row), value);
  } else {
    put_rows(relay_rows(layer, AT_OUT + row), value);
  }
}

// ---- the output projection, whose input is attention's parts
// Behind the staged input in xs, (range, head): the largest score, the weight, the factor of a part.
const PARTS = RANGES * HEADS;
const AT_MOST = XS_o;
const AT_WEIGHT = AT_MOST + PARTS;
const AT_FACTOR = AT_WEIGHT + PARTS;
const UNROLL = 4u / TEAM_ROWS;  // parts that are looked for at a time
const ATTENDED_EACH = (Q_ROWS + WORKGROUP - 1u) / WORKGROUP;  // elements of an invocation

fn rows_o(row_set: u32) -> Rows {
  return Rows(3u, row_set * ROWS_o);
}
// A row with fewer parts is given its last one again; its factor is 0.
fn look_part(layer: u32, range: u32, column: u32) -> TeamU32 {
  let at = (min(TeamU32(range), part_counts - 1u) * HEADS + column / HEAD_DIM) * HEAD_DIM + column % HEAD_DIM;
  return look_rows(relay_rows(layer, AT_PARTS) + at);
}
// Both of what a part weighs.
fn take_stats(layer: u32, range: u32, head: u32) -> array<TeamF32, 2> {
  let at = relay_rows(layer, AT_PARTS + PART_STATS) + (min(TeamU32(range), part_counts - 1u) * HEADS + head) * 2u;
  var most: TeamU32;
  var weight: TeamU32;
  loop {
    most = look_rows(at);
    weight = look_rows(at + 1u);
    if !waits(are_there(most) && are_there(weight)) {
      break;
    }
  }
  return array(bitcast<TeamF32>(most), bitcast<TeamF32>(weight));
}
// Puts the parts together: after a barrier xs has the whole.
fn stage_o(layer: u32, local: u32, sums: ptr<function, Sums>) {
  let count = largest(part_counts);
  var seen: array<TeamU32, UNROLL * ATTENDED_EACH>;
  loop {
    for (var j = 0u; j < ATTENDED_EACH; j++) {
      for (var k = 0u; k < UNROLL; k++) {
        seen[j * UNROLL + k] = look_part(layer, k, min(j * WORKGROUP + local, Q_ROWS - 1u));
      }
    }
    var is_there = true;
    for (var i = 0u; i < UNROLL * ATTENDED_EACH; i++) {
      is_there = is_there && are_there(seen[i]);
    }
    if !waits(is_there) {
      break;
    }
  }
  for (var i = local; i < count * HEADS; i += WORKGROUP) {
    let stats = take_stats(layer, i / HEADS, i % HEADS);
    xs[AT_MOST + i] = stats[0];
    xs[AT_WEIGHT + i] = stats[1];
  }
  workgroupBarrier();
  for (var i = local; i < count * HEADS; i += WORKGROUP) {
    var most = TeamF32(LEAST);
    for (var range = 0u; range < count; range++) {
      most = max(most, xs[AT_MOST + range * HEADS + i % HEADS]);
    }
    var weight = TeamF32();
    for (var range = 0u; range < count; range++) {
      let at = range * HEADS + i % HEADS;
      weight += select(TeamF32(), weight_rows(xs[AT_MOST + at] - most) * xs[AT_WEIGHT + at], TeamU32(range) < part_counts);
    }
    let factor = weight_rows(xs[AT_MOST + i] - most) / weight;
    xs[AT_FACTOR + i] = select(TeamF32(), factor, TeamU32(i / HEADS) < part_counts);
  }
  workgroupBarrier();
  for (var j = 0u; j < ATTENDED_EACH; j++) {
    let column = j * WORKGROUP + local;
    if column < Q_ROWS {
      var sum = TeamF32();
      for (var first = 0u; first < count; first += UNROLL) {
        if first > 0u {
          loop {
            var is_there = true;
            for (var k = 0u; k < UNROLL; k++) {
              seen[j * UNROLL + k] = look_part(layer, first + k, column);
            }
            for (var k = 0u; k < UNROLL; k++) {
              is_there = is_there && are_there(seen[j * UNROLL + k]);
            }
            if !waits(is_there) {
              break;
            }
          }
        }
        for (var k = 0u; k < UNROLL; k++) {
          if first + k < count {
            sum += xs[AT_FACTOR + (first + k) * HEADS + column / HEAD_DIM] * bitcast<TeamF32>(seen[j * UNROLL + k]);
          }
        }
      }
      xs[column % 32u * STRIDE_o + column / 32u] = sum;
    }
  }
}
// exp(x) for x <= 0.
fn weight_rows(x: TeamF32) -> TeamF32 {
  return exp(max(x, TeamF32(-87.0)));
}
fn operand_o(layer: u32, row: u32) -> TeamU32 {
  return look_qkv(layer, row);
}
fn finish_o(layer: u32, rows: Rows, place: u32, a: TeamF32, b: TeamF32, operand: TeamU32) {
  let row = rows.begin + place;
  put_rows(relay_rows(layer, AT_ATTENDED + row), bitcast<TeamF32>(operand) + a);
}

// ---- attention: a head with a range of the context. LANES_TOKEN lanes have a token, eight elements each.
const LANES_TOKEN = HEAD_DIM / 8u;
const SLOTS = WORKGROUP / LANES_TOKEN;  // tokens at a time
const GROUP = HEADS / KV_HEADS;
const PAIRS = HEAD_DIM / 2u;

var<workgroup> query: array<f32, HEAD_DIM>;
var<workgroup> newest: array<f32, 2u * HEAD_DIM>;     // k and v of this token, as the cache will have them
var<workgroup> line_stats: array<vec2<f32>, LINES>;  // largest score, weight

fn cache_row(r: u32, layer: u32, is_value: u32, kv_head: u32, position: u32) -> u32 {
  let page = page_of(first_row + r, position) * layer_word(layer, 14u) + layer_word(layer, 13u);
  return page + ((is_value * KV_HEADS + kv_head) * 256u + position % 256u) * KV_WORDS;
}

// As the cache keeps it.
fn kept(value: f32) -> f32 {
  return select(unpack2x16float(to_half(value)).x, value, KV_F32 != 0u);
}

// Two elements of head `unit` of q | k | v, which are rotated together; `at`: which.
fn load_pair(r: u32, layer: u32, unit: u32, pair: u32, at: ptr<function, vec2<u32>>) -> vec2<f32> {
  let is_rotated = pair < ROPE_PAIRS && unit < HEADS + KV_HEADS;
  *at = vec2(2u * pair, 2u * pair + 1u);
  var turn = vec2(1.0, 0.0);
  if is_rotated {
    *at = vec2(pair_first(pair), pair_second(pair));
    turn = turns[r * ROPE_PAIRS + min(pair, max(ROPE_PAIRS, 1u) - 1u)];
  }
  let head = relay_at(r, layer, unit * HEAD_DIM);
  let v = take2(head + (*at).x, head + (*at).y);
  return vec2(v.x * turn.x - v.y * turn.y, v.x * turn.y + v.y * turn.x);
}

// The query; and k and v of this token for who has it in its range.
fn stage_heads(r: u32, layer: u32, head: u32, is_newest: bool, local: u32) {
  let kv_head = head / GROUP;
  for (var i = local; i < select(1u, 3u, is_newest) * PAIRS; i += WORKGROUP) {
    var at = vec2<u32>();
    if i < PAIRS {
      let pair = load_pair(r, layer, head, i, &at) * SCALE;
      query[at.x] = pair.x;
      query[at.y] = pair.y;
    } else {
      let is_value = i / PAIRS - 1u;
      let pair = load_pair(r, layer, HEADS + is_value * KV_HEADS + kv_head, i % PAIRS, &at);
      newest[is_value * HEAD_DIM + at.x] = kept(pair.x);
      newest[is_value * HEAD_DIM + at.y] = kept(pair.y);
    }
  }
}

// By the first head of a group.
fn write_newest(r: u32, layer: u32, kv_head: u32, position: u32, local: u32) {
  if local >= 2u * LANES_TOKEN {
    return;
  }
  var values: array<f32, 8>;
  for (var j = 0u; j < 8u; j++) {
    values[j] = newest[local * 8u + j];
  }
  store_kv8(cache_row(r, layer, local / LANES_TOKEN, kv_head, position), local % LANES_TOKEN, values);
}
fn newest8(is_value: u32, part: u32) -> Kv8 {
  let at = is_value * HEAD_DIM + part * 8u;
  return Kv8(vec4(newest[at], newest[at + 1u], newest[at + 2u], newest[at + 3u]),
             vec4(newest[at + 4u], newest[at + 5u], newest[at + 6u], newest[at + 7u]));
}

struct Weighed {  // V of some tokens, eight elements
  largest: f32,  // score
  weight: f32,
  v: Kv8,
}
fn joined(a: Weighed, b: Weighed) -> Weighed {
  let largest = max(a.largest, b.largest);
  let p = weight_of(a.largest - largest);
  let q = weight_of(b.largest - largest);
  return Weighed(largest, a.weight * p + b.weight * q, Kv8(a.v.low * p + b.v.low * q, a.v.high * p + b.v.high * q));
}
fn shuffled(x: Weighed, k: u32) -> Weighed {
  return Weighed(subgroupShuffleXor(x.largest, k), subgroupShuffleXor(x.weight, k),
                 Kv8(subgroupShuffleXor(x.v.low, k), subgroupShuffleXor(x.v.high, k)));
}

// Of `rows` rows from `first`: barriers want both from who knows that they are the same in the whole workgroup.
fn attention(layer: u32, first: u32, rows: u32, task_count: u32, first_task: u32, count: u32, local: u32) {
  let part = local % LANES_TOKEN;
  for (var task = first_task; task < task_count; task += count) {
    let head = task % HEADS;
    let kv_head = head / GROUP;
    let r = min(task / HEADS % rows, TEAM_ROWS - 1u);
    let range = task / (HEADS * rows);
    let position = row_position(first + r);
    let ranges = ranges_of(position);
    if range >= ranges.count {
      continue;
    }
    let begin = ranges.begin + range * ranges.tokens;
    let end = min(begin + ranges.tokens, position + 1u);
    let is_newest = range + 1u == ranges.count;
    var token = begin + local / LANES_TOKEN;
    var k = load_kv8(cache_row(r, layer, 0u, kv_head, min(token, end - 1u)), part);
    var v = load_kv8(cache_row(r, layer, 1u, kv_head, min(token, end - 1u)), part);
    stage_heads(r, layer, head, is_newest, local);
    workgroupBarrier();
    if is_newest && head % GROUP == 0u {
      write_newest(r, layer, kv_head, position, local);
    }
    let at = part * 8u;
    let q = Kv8(vec4(query[at], query[at + 1u], query[at + 2u], query[at + 3u]),
                vec4(query[at + 4u], query[at + 5u], query[at + 6u], query[at + 7u]));
    var sum = Weighed(LEAST, 0.0, Kv8(vec4<f32>(), vec4<f32>()));
    for (var first = begin; first < end; first += SLOTS) {
      var key = k;
      var value = v;
      if first + SLOTS < end {
        k = load_kv8(cache_row(r, layer, 0u, kv_head, min(token + SLOTS, end - 1u)), part);
        v = load_kv8(cache_row(r, layer, 1u, kv_head, min(token + SLOTS, end - 1u)), part);
      }
      if token >= position {
        key = newest8(0u, part);
        value = newest8(1u, part);
      }
      let score = capped(shuffled_sum(dot(q.low, key.low) + dot(q.high, key.high), LANES_TOKEN));
      if token < end {
        sum = joined(sum, Weighed(score, 1.0, value));
      }
      token += SLOTS;
    }
    for (var k = LANES_TOKEN; k < LANES_TOGETHER; k *= 2u) {
      let other = shuffled(sum, k);
      if k < subgroup_width {
        sum = joined(sum, other);
      }
    }
    let line = local / together();
    if local % together() < LANES_TOKEN {
      for (var j = 0u; j < 4u; j++) {
        xs[line * HEAD_DIM + at + j] = TeamF32(sum.v.low[j]);
        xs[line * HEAD_DIM + at + 4u + j] = TeamF32(sum.v.high[j]);
      }
      line_stats[line] = vec2(sum.largest, sum.weight);
    }
    workgroupBarrier();
    for (var i = local; i < HEAD_DIM; i += WORKGROUP) {
      finish_head(r, layer, range, head, i);
    }
    workgroupBarrier();  // xs is free
  }
}

fn finish_head(r: u32, layer: u32, range: u32, head: u32, i: u32) {
  var most = LEAST;
  for (var line = 0u; line < WORKGROUP / together(); line++) {
    most = max(most, line_stats[line].x);
  }
  var sum = 0.0;
  var weight = 0.0;
  for (var line = 0u; line < WORKGROUP / together(); line++) {
    let stat = line_stats[line];
    let factor = weight_of(stat.x - most);
    sum += factor * component(xs[line * HEAD_DIM + i]);
    weight += factor * stat.y;
  }
  let parts = relay_at(r, layer, AT_PARTS);
  put(parts + part_at(0u, range, head) + i, sum);
  if i == 0u {
    let stat = parts + stat_at(0u, range, head);
    put(stat, most);
    put(stat + 1u, weight);
  }
}

// ---- the run
// Which of `count` workgroups begins with a phase's first set moves on from phase to phase, so that neighbouring
// phases are of different ones as far as there are so many.
fn first_of(group: u32, count: u32, skipped: u32) -> u32 {
  return (group + count - skipped % count) % count;
}

// The rotations of these tokens' positions, and the halves that the next run uses.
fn begin_run(team: u32, group: u32, count: u32, local: u32) {
  let halves = HALVES + param(3u) + 2u * team * HALF_WORDS;
  let half = look(RUNS + param(2u) + team) % 2u;
  half_at = halves + half * HALF_WORDS;
  for (var i = group * WORKGROUP + local; i < HALF_WORDS; i += count * WORKGROUP) {
    atomicStore(&relay[halves + (1u - half) * HALF_WORDS + i], 0u);
  }
  part_counts = ranges_of_rows();
  for (var i = local; i < row_count * ROPE_PAIRS; i += WORKGROUP) {
    let position = row_position(first_row + i / ROPE_PAIRS);
    turns[i] = rotation(position, param(1u) + 2u * (i % ROPE_PAIRS)) * ROPE_MAGNITUDE;
  }
  for (var i = local; i < 16u * LAYERS; i += WORKGROUP) {
    layer_words[i] = param(16u + i);
  }
}

fn spoil() {
  store_x(x_rows(0u), TeamF32(bitcast<f32>(0x7fc00000u | row_count)));  // NaN
}

// The last workgroup to come here counts the run, and knows whether any gave up. `team`: its number in the relay.
fn end_run(team: u32, count: u32, local: u32) {
  if gave_up {
    atomicStore(&has_failed, 1u);
  }
  workgroupBarrier();
  if local == 0u {
    let mine = 1u + (atomicLoad(&has_failed) << 16u);
    let all = atomicAdd(&relay[FINISHED + team], mine) + mine;
    if (all & 0xffffu) == count {
      atomicStore(&relay[FINISHED + team], 0u);
      atomicAdd(&relay[RUNS + team], 1u);
      if all >> 16u != 0u {
        atomicStore(&relay[GAVE_UP + team], 1u);
        spoil();
      }
    }
  }
}

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32, @builtin(subgroup_size) width: u32) {
  if is_stopped() || token_count() == 0u {
    return;
  }
  let fewest = max((token_count() + TEAM_ROWS - 1u) / TEAM_ROWS, min(token_count(), 2u));
  let rows_each = (token_count() + fewest - 1u) / fewest;
  let teams = (token_count() + rows_each - 1u) / rows_each;
  let count = groups.x / teams;  // workgroups of a team
  let team = id.x / count;
  let group = id.x % count;
  let first = team * rows_each;
  let rows = min(rows_each, token_count() - first);
  first_row = first;
  row_count = rows;
  if local == 0u {
    is_useless = look(GAVE_UP + param(2u) + team);
  }
  if workgroupUniformLoad(&is_useless) != 0u {
    if group == 0u && local == 0u {
      spoil();
    }
    return;
  }
  subgroup_width = width;
  begin_run(team, group, count, local);
  workgroupBarrier();
  var task_count = 0u;
  for (var r = 0u; r < rows; r++) {
    task_count = max(task_count, HEADS * rows * ranges_of(row_position(first + r)).count);
  }
  // The weights of a phase are asked for before the wait of the one before.
  let first_o = first_of(group, count, SETS_qkv + HEADS * rows * RANGES);
  let first_down = first_of(group, count, SETS_gate);
  var qkv: Raws_qkv;
  var o: Raws_o;
  var gate: Raws_gate;
  var down: Raws_down;
  begin_qkv(0u, group, local, &qkv);
  for (var layer = 0u; layer < LAYERS; layer++) {
    patience = select(PATIENCE, 0u, gave_up);
    begin_o(layer, first_o, local, &o);
    run_qkv(layer, group, count, local, &qkv);
    attention(layer, first, rows, task_count, first_of(group, count, SETS_qkv), count, local);
    begin_gate(layer, group, local, &gate);
    run_o(layer, first_o, count, local, &o);
    begin_down(layer, first_down, local, &down);
    run_gate(layer, group, count, local, &gate);
    begin_qkv(min(layer + 1u, LAYERS - 1u), group, local, &qkv);
    run_down(layer, first_down, count, local, &down);
  }
  end_run(param(2u) + team, count, local);
}
