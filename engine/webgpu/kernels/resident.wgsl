// resident: all layers of a model for one token, in one dispatch. Its workgroups are all there at once and hand
// results on through `relay` as soon as they have them: no word of it is written twice in a run, one that is not
// written yet is 0 (a result of 0 is written as -0), and who needs it looks until it is there. So nobody waits
// for a whole phase, only for what it reads; and what a phase reads of weights and of the cache is asked for
// before it looks for its input.
// WGSL does not promise that workgroups run side by side, so nobody looks for ever (PATIENCE): what has not come
// is not a number, and so is all that follows from it, the logits too. Who has given up waits no more.
// Layout:   relay: RUNS, FINISHED, GAVE_UP, then two halves by turns: while one is used, the other is cleared. In
//           a half, of each layer: q | k | v before rotation, attention's parts (attention_parts.wgsl), x after
//           attention, the FFN's products, x after the FFN.
// Dispatch: any number of workgroups that run at the same time.
// Params:   0 x, in and out; 1 frequencies; then of each layer 16 words: 0 q, 1 k, 2 v, 3 o, 4 gate, 5 up, 6 down (first
//           vec4 in a window), 7 windows (2 bits each), 8 norm of attention, 9 of the FFN, 10 .. 12 biases of q,
//           k, v, 13 the layer's place in a page of the cache, 14 a page's words.
// Requires: subgroups of LEAST_WIDTH lanes or more, LEAST_WIDTH >= HEAD_DIM / 8, which is a power of two; COLUMNS,
//           Q_ROWS, FFN multiples of 32.
const WORKGROUP = 256u;
const RANGE_STEP = SLOTS;
const PART_ROWS = 1u;
const RUNS = 0u;
const FINISHED = 1u;
const GAVE_UP = 2u;
const HALVES = 16u;
const PATIENCE = 20000u;  // looks, of an invocation in a layer: a few to some ten ms

const AT_PARTS = Q_ROWS + 2u * KV_ROWS;
const AT_ATTENDED = AT_PARTS + RANGES * HEADS * (HEAD_DIM + 2u);
const AT_FFN = AT_ATTENDED + COLUMNS;
const AT_OUT = AT_FFN + FFN;
const LAYER_WORDS = AT_OUT + COLUMNS;

const QKV_SETS = (Q_ROWS + 2u * KV_ROWS) / ROWS_qkv;
const LANES_TOGETHER = 32u;
const LINES = WORKGROUP / min(LEAST_WIDTH, LANES_TOGETHER);

// A product's input, column c of block b at c * STRIDE + b; or of attention (line, element).
var<workgroup> xs: array<f32, max(XS, LINES * HEAD_DIM)>;
var<workgroup> partials: array<f32, 2u * WORKGROUP>;   // (matrix, row, lanes that were not added by shuffles)
var<workgroup> square_parts: array<f32, LINES>;
var<workgroup> layer_words: array<u32, 16u * LAYERS>;   // params of the layers
var<workgroup> turns: array<vec2<f32>, max(ROPE_PAIRS, 1u)>;
var<workgroup> is_useless: u32;  // runs have failed before
var<workgroup> has_failed: atomic<u32>;

var<private> half_at: u32;
var<private> patience: u32;
var<private> gave_up: bool;
var<private> subgroup_width: u32;

fn layer_word(layer: u32, i: u32) -> u32 {
  return layer_words[16u * layer + i];
}
fn window_of(layer: u32, matrix: u32) -> u32 {
  return (layer_word(layer, 7u) >> (2u * matrix)) & 3u;
}
fn relay_at(layer: u32, place: u32) -> u32 {
  return half_at + layer * LAYER_WORDS + place;
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
// After a barrier: of a row's lanes.
fn shared_sum(matrix: u32, lanes: u32, place: u32) -> f32 {
  let count = lanes / min(lanes, together());
  var sum = 0.0;
  for (var i = 0u; i < count; i++) {
    sum += partials[matrix * WORKGROUP + place * count + i];
  }
  return sum;
}
fn norm_factor() -> f32 {
  var squared = 0.0;
  for (var i = 0u; i < WORKGROUP / together(); i++) {
    squared += square_parts[i];
  }
  return inverseSqrt(squared / f32(COLUMNS) + EPS);
}

fn staged4(at: u32, stride: u32) -> vec4<f32> {
  return vec4(xs[at], xs[at + stride], xs[at + 2u * stride], xs[at + 3u * stride]);
}
fn block_product(weights: Block, block: u32, stride: u32) -> f32 {
  let low = dot(weights.w[0], staged4(block, stride)) + dot(weights.w[1], staged4(block + 4u * stride, stride)) +
            dot(weights.w[2], staged4(block + 8u * stride, stride)) + dot(weights.w[3], staged4(block + 12u * stride, stride));
  let high = dot(weights.w[4], staged4(block + 16u * stride, stride)) + dot(weights.w[5], staged4(block + 20u * stride, stride)) +
             dot(weights.w[6], staged4(block + 24u * stride, stride)) + dot(weights.w[7], staged4(block + 28u * stride, stride));
  return weights.scale.x * low + weights.scale.y * high;
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
fn input_qkv(layer: u32) -> u32 {
  return relay_at(max(layer, 1u) - 1u, AT_OUT);
}
fn look_qkv(layer: u32, column: u32) -> u32 {
  if layer == 0u {
    let bits = bitcast<u32>(load_out(param(0u) + column));
    return select(bits, 0x80000000u, bits == 0u);
  }
  return look(input_qkv(layer) + column);
}
fn norm_qkv(layer: u32, column: u32) -> f32 {
  return load_vector(layer_word(layer, 8u) + column);
}
fn operand_qkv(layer: u32, row: u32) -> u32 {
  return 1u;
}
fn finish_qkv(layer: u32, rows: Rows, place: u32, a: f32, b: f32, operand: u32) {
  let row = rows.begin + place;
  var value = a * norm_factor();
  if (BIASES & (1u << rows.matrix)) != 0u {
    value += load_vector(layer_word(layer, 10u + rows.matrix) + row);
  }
  let at = select(select(0u, Q_ROWS, rows.matrix == 1u), Q_ROWS + KV_ROWS, rows.matrix == 2u);
  put(relay_at(layer, at + row), value);
}

// ---- gate and up
fn rows_gate(row_set: u32) -> Rows {
  return Rows(4u, row_set * ROWS_gate);
}
fn input_gate(layer: u32) -> u32 {
  return relay_at(layer, AT_ATTENDED);
}
fn look_gate(layer: u32, column: u32) -> u32 {
  return look(input_gate(layer) + column);
}
fn norm_gate(layer: u32, column: u32) -> f32 {
  return load_vector(layer_word(layer, 9u) + column);
}
fn operand_gate(layer: u32, row: u32) -> u32 {
  return 1u;
}
fn finish_gate(layer: u32, rows: Rows, place: u32, a: f32, b: f32, operand: u32) {
  let factor = norm_factor();
  put(relay_at(layer, AT_FFN + rows.begin + place), epilogue(0.0, a * factor, b * factor));
}

// ---- down
fn rows_down(row_set: u32) -> Rows {
  return Rows(6u, row_set * ROWS_down);
}
fn input_down(layer: u32) -> u32 {
  return relay_at(layer, AT_FFN);
}
fn look_down(layer: u32, column: u32) -> u32 {
  return look(input_down(layer) + column);
}
fn norm_down(layer: u32, column: u32) -> f32 {
  return 1.0;
}
fn operand_down(layer: u32, row: u32) -> u32 {
  return look(input_gate(layer) + row);
}
fn finish_down(layer: u32, rows: Rows, place: u32, a: f32, b: f32, operand: u32) {
  let row = rows.begin + place;
  let value = bitcast<f32>(operand) + a;
  if layer + 1u == LAYERS {
    store_act(param(0u) + row, value);
  } else {
    put(relay_at(layer, AT_OUT + row), value);
  }
}

// ---- the output projection, whose input is attention's parts
var<workgroup> part_stats: array<vec2<f32>, RANGES * HEADS>;  // (range, head)
var<workgroup> part_factors: array<f32, RANGES * HEADS>;
const UNROLL = 4u;  // parts that are looked for at a time
const COLUMNS_EACH = (Q_ROWS + WORKGROUP - 1u) / WORKGROUP;

fn rows_o(row_set: u32) -> Rows {
  return Rows(3u, row_set * ROWS_o);
}
fn part_place(layer: u32, range: u32, column: u32) -> u32 {
  return relay_at(layer, AT_PARTS) + part_at(0u, range, min(column, Q_ROWS - 1u) / HEAD_DIM) + column % HEAD_DIM;
}
// Puts the parts together: after a barrier xs has the whole.
fn stage_o(layer: u32, local: u32) -> f32 {
  let count = ranges_of(row_position(0u)).count;
  var seen: array<u32, UNROLL * COLUMNS_EACH>;
  loop {
    var are_there = true;
    for (var j = 0u; j < COLUMNS_EACH; j++) {
      for (var k = 0u; k < UNROLL; k++) {
        seen[j * UNROLL + k] = look(part_place(layer, min(k, count - 1u), j * WORKGROUP + local));
      }
    }
    for (var i = 0u; i < UNROLL * COLUMNS_EACH; i++) {
      are_there = are_there && seen[i] != 0u;
    }
    if !waits(are_there) {
      break;
    }
  }
  for (var i = local; i < count * HEADS; i += WORKGROUP) {
    let at = relay_at(layer, AT_PARTS) + stat_at(0u, i / HEADS, i % HEADS);
    part_stats[i] = take2(at, at + 1u);
  }
  workgroupBarrier();
  for (var i = local; i < count * HEADS; i += WORKGROUP) {
    var most = LEAST;
    for (var range = 0u; range < count; range++) {
      most = max(most, part_stats[range * HEADS + i % HEADS].x);
    }
    var weight = 0.0;
    for (var range = 0u; range < count; range++) {
      let stat = part_stats[range * HEADS + i % HEADS];
      weight += weight_of(stat.x - most) * stat.y;
    }
    part_factors[i] = weight_of(part_stats[i].x - most) / weight;
  }
  workgroupBarrier();
  for (var j = 0u; j < COLUMNS_EACH; j++) {
    let column = j * WORKGROUP + local;
    if column < Q_ROWS {
      var sum = 0.0;
      for (var first = 0u; first < count; first += UNROLL) {
        if first > 0u {
          loop {
            var are_there = true;
            for (var k = 0u; k < UNROLL; k++) {
              seen[j * UNROLL + k] = look(part_place(layer, min(first + k, count - 1u), column));
            }
            for (var k = 0u; k < UNROLL; k++) {
              are_there = are_there && seen[j * UNROLL + k] != 0u;
            }
            if !waits(are_there) {
              break;
            }
          }
        }
        for (var k = 0u; k < UNROLL; k++) {
          if first + k < count {
            sum += part_factors[(first + k) * HEADS + column / HEAD_DIM] * bitcast<f32>(seen[j * UNROLL + k]);
          }
        }
      }
      xs[column % 32u * STRIDE_o + column / 32u] = sum;
    }
  }
  return 0.0;
}
fn operand_o(layer: u32, row: u32) -> u32 {
  return look_qkv(layer, row);
}
fn finish_o(layer: u32, rows: Rows, place: u32, a: f32, b: f32, operand: u32) {
  let row = rows.begin + place;
  put(relay_at(layer, AT_ATTENDED + row), bitcast<f32>(operand) + a);
}

// ---- attention: a head with a range of the context. LANES_TOKEN lanes have a token, eight elements each.
const LANES_TOKEN = HEAD_DIM / 8u;
const SLOTS = WORKGROUP / LANES_TOKEN;  // tokens at a time
const GROUP = HEADS / KV_HEADS;
const PAIRS = HEAD_DIM / 2u;

var<workgroup> query: array<f32, HEAD_DIM>;
var<workgroup> newest: array<f32, 2u * HEAD_DIM>;     // k and v of this token, as the cache will have them
var<workgroup> line_stats: array<vec2<f32>, LINES>;  // largest score, weight

fn cache_row(layer: u32, is_value: u32, kv_head: u32, position: u32) -> u32 {
  let page = page_of(0u, position) * layer_word(layer, 14u) + layer_word(layer, 13u);
  return page + ((is_value * KV_HEADS + kv_head) * 256u + position % 256u) * KV_WORDS;
}

// As the cache keeps it.
fn kept(value: f32) -> f32 {
  return select(unpack2x16float(to_half(value)).x, value, KV_F32 != 0u);
}

// Two elements of head `unit` of q | k | v, which are rotated together; `at`: which.
fn load_pair(layer: u32, unit: u32, pair: u32, at: ptr<function, vec2<u32>>) -> vec2<f32> {
  let is_rotated = pair < ROPE_PAIRS && unit < HEADS + KV_HEADS;
  *at = vec2(2u * pair, 2u * pair + 1u);
  var turn = vec2(1.0, 0.0);
  if is_rotated {
    *at = vec2(pair_first(pair), pair_second(pair));
    turn = turns[min(pair, max(ROPE_PAIRS, 1u) - 1u)];
  }
  let head = relay_at(layer, unit * HEAD_DIM);
  let v = take2(head + (*at).x, head + (*at).y);
  return vec2(v.x * turn.x - v.y * turn.y, v.x * turn.y + v.y * turn.x);
}

// The query; and k and v of this token for who has it in its range.
fn stage_heads(layer: u32, head: u32, is_newest: bool, local: u32) {
  let kv_head = head / GROUP;
  for (var i = local; i < select(1u, 3u, is_newest) * PAIRS; i += WORKGROUP) {
    var at = vec2<u32>();
    if i < PAIRS {
      let pair = load_pair(layer, head, i, &at) * SCALE;
      query[at.x] = pair.x;
      query[at.y] = pair.y;
    } else {
      let is_value = i / PAIRS - 1u;
      let pair = load_pair(layer, HEADS + is_value * KV_HEADS + kv_head, i % PAIRS, &at);
      newest[is_value * HEAD_DIM + at.x] = kept(pair.x);
      newest[is_value * HEAD_DIM + at.y] = kept(pair.y);
    }
  }
}

// By the first head of a group.
fn write_newest(layer: u32, kv_head: u32, position: u32, local: u32) {
  if local >= 2u * LANES_TOKEN {
    return;
  }
  var values: array<f32, 8>;
  for (var j = 0u; j < 8u; j++) {
    values[j] = newest[local * 8u + j];
  }
  store_kv8(cache_row(layer, local / LANES_TOKEN, kv_head, position), local % LANES_TOKEN, values);
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

fn attention(layer: u32, first_task: u32, count: u32, local: u32) {
  let position = row_position(0u);
  let ranges = ranges_of(position);
  let part = local % LANES_TOKEN;
  for (var task = first_task; task < HEADS * ranges.count; task += count) {
    let head = task % HEADS;
    let kv_head = head / GROUP;
    let range = task / HEADS;
    let begin = ranges.begin + range * ranges.tokens;
    let end = min(begin + ranges.tokens, position + 1u);
    let is_newest = range + 1u == ranges.count;
    var token = begin + local / LANES_TOKEN;
    var k = load_kv8(cache_row(layer, 0u, kv_head, min(token, end - 1u)), part);
    var v = load_kv8(cache_row(layer, 1u, kv_head, min(token, end - 1u)), part);
    stage_heads(layer, head, is_newest, local);
    workgroupBarrier();
    if is_newest && head % GROUP == 0u {
      write_newest(layer, kv_head, position, local);
    }
    let at = part * 8u;
    let q = Kv8(vec4(query[at], query[at + 1u], query[at + 2u], query[at + 3u]),
                vec4(query[at + 4u], query[at + 5u], query[at + 6u], query[at + 7u]));
    var sum = Weighed(LEAST, 0.0, Kv8(vec4<f32>(), vec4<f32>()));
    for (var first = begin; first < end; first += SLOTS) {
      var key = k;
      var value = v;
      if first + SLOTS < end {
        k = load_kv8(cache_row(layer, 0u, kv_head, min(token + SLOTS, end - 1u)), part);
        v = load_kv8(cache_row(layer, 1u, kv_head, min(token + SLOTS, end - 1u)), part);
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
        xs[line * HEAD_DIM + at + j] = sum.v.low[j];
        xs[line * HEAD_DIM + at + 4u + j] = sum.v.high[j];
      }
      line_stats[line] = vec2(sum.largest, sum.weight);
    }
    workgroupBarrier();
    for (var i = local; i < HEAD_DIM; i += WORKGROUP) {
      finish_head(layer, range, head, i);
    }
    workgroupBarrier();  // xs is free
  }
}

fn finish_head(layer: u32, range: u32, head: u32, i: u32) {
  var most = LEAST;
  for (var line = 0u; line < WORKGROUP / together(); line++) {
    most = max(most, line_stats[line].x);
  }
  var sum = 0.0;
  var weight = 0.0;
  for (var line = 0u; line < WORKGROUP / together(); line++) {
    let stat = line_stats[line];
    let factor = weight_of(stat.x - most);
    sum += factor * xs[line * HEAD_DIM + i];
    weight += factor * stat.y;
  }
  let parts = relay_at(layer, AT_PARTS);
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

// The rotation of this token's position, and the half that the next run uses.
fn begin_run(group: u32, count: u32, local: u32) {
  let runs = look(RUNS);
  half_at = HALVES + runs % 2u * LAYERS * LAYER_WORDS;
  let other = HALVES + (runs + 1u) % 2u * LAYERS * LAYER_WORDS;
  for (var i = group * WORKGROUP + local; i < LAYERS * LAYER_WORDS; i += count * WORKGROUP) {
    atomicStore(&relay[other + i], 0u);
  }
  for (var i = local; i < 16u * LAYERS; i += WORKGROUP) {
    layer_words[i] = param(16u + i);
  }
  for (var i = local; i < ROPE_PAIRS; i += WORKGROUP) {
    turns[i] = rotation(row_position(0u), param(1u) + 2u * i) * ROPE_MAGNITUDE;
  }
}

fn spoil() {
  store_act(param(0u), bitcast<f32>(0x7fc00000u | half_at));  // NaN
}

// The last workgroup to come here counts the run, and knows whether any gave up.
fn end_run(count: u32, local: u32) {
  if gave_up {
    atomicStore(&has_failed, 1u);
  }
  workgroupBarrier();
  if local == 0u {
    let mine = 1u + (atomicLoad(&has_failed) << 16u);
    let all = atomicAdd(&relay[FINISHED], mine) + mine;
    if (all & 0xffffu) == count {
      atomicStore(&relay[FINISHED], 0u);
      atomicAdd(&relay[RUNS], 1u);
      if all >> 16u != 0u {
        atomicStore(&relay[GAVE_UP], 1u);
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
  if local == 0u {
    is_useless = look(GAVE_UP);
  }
  if workgroupUniformLoad(&is_useless) != 0u {
    if id.x == 0u && local == 0u {
      spoil();
    }
    return;
  }
  subgroup_width = width;
  begin_run(id.x, groups.x, local);
  workgroupBarrier();
  // The weights of a phase are asked for before the wait of the one before.
  let count = groups.x;
  let first_o = first_of(id.x, count, SETS_qkv + HEADS * RANGES);
  let first_down = first_of(id.x, count, SETS_gate);
  var qkv: Raws_qkv;
  var o: Raws_o;
  var gate: Raws_gate;
  var down: Raws_down;
  begin_qkv(0u, id.x, local, &qkv);
  for (var layer = 0u; layer < LAYERS; layer++) {
    patience = select(PATIENCE, 0u, gave_up);
    begin_o(layer, first_o, local, &o);
    run_qkv(layer, id.x, count, local, &qkv);
    attention(layer, first_of(id.x, count, SETS_qkv), count, local);
    begin_gate(layer, id.x, local, &gate);
    run_o(layer, first_o, count, local, &o);
    begin_down(layer, first_down, local, &down);
    run_gate(layer, id.x, count, local, &gate);
    begin_qkv(min(layer + 1u, LAYERS - 1u), id.x, local, &qkv);
    run_down(layer, first_down, count, local, &down);
  }
  end_run(groups.x, local);
}
