// sample_choose: chooses the next token of each row as session/sampler.cc does, and moves the row's reply on
// to it: the state is then that of the next token's run.
// Layout:   logits (rows, VOCABULARY); best (rows, GROUPS) from sample_scan; the state's replies and records
//           (webgpu/state.h).
// Dispatch: a workgroup of 256 for each row.
// Params:   0 logits; 1 replies; 2 records; 3 end tokens, all in the state but the first.
// What is not chosen here is left to the host (REPLY_NEEDS_HOST): a logit that is no number, none that is
// allowed, more ties at the edge of top-k than CANDIDATES.
const GROUPS_EACH = GROUPS / 256u;
const CANDIDATES = 512u;
const MOST_KEPT = 64u;  // of top-k

var<workgroup> is_going: u32;
var<workgroup> keys: array<u32, CANDIDATES>;
var<workgroup> ids: array<u32, CANDIDATES>;
var<workgroup> histogram: array<atomic<u32>, 256>;
var<workgroup> sums: array<u32, 512>;            // two of 256, by turns
var<workgroup> masses: array<f32, 2u * MOST_KEPT>;  // likewise
var<workgroup> digit: vec2<u32>;                 // of the threshold; how many are wanted below
var<workgroup> candidate_count: atomic<u32>;
var<workgroup> found: atomic<u32>;
var<workgroup> shared_count: u32;

var<workgroup> words: array<u32, REPLY_WORDS>;     // of the row's reply
var<workgroup> end_tokens: array<u32, END_TOKENS>;

var<private> reply: u32;

fn reply_word(i: u32) -> u32 {
  return words[i];
}
fn reply_float(i: u32) -> f32 {
  return bitcast<f32>(reply_word(i));
}

fn is_better(a: vec2<u32>, b: vec2<u32>) -> bool {
  return a.x > b.x || (a.x == b.x && a.y < b.y);
}

// The best of all, in keys[0] and ids[0] after a barrier.
fn choose_best(row: u32, local: u32) {
  var best = best_in[row * GROUPS + local];
  for (var i = 1u; i < GROUPS_EACH; i++) {
    let other = best_in[row * GROUPS + i * 256u + local];
    if is_better(other, best) {
      best = other;
    }
  }
  keys[local] = best.x;
  ids[local] = best.y;
  for (var count = 16u; count > 0u; count /= 16u) {
    workgroupBarrier();
    if local < count {
      for (var i = local + count; i < count * 16u; i += count) {
        let other = vec2(keys[i], ids[i]);
        if is_better(other, best) {
          best = other;
        }
      }
    }
    workgroupBarrier();
    if local < count {
      keys[local] = best.x;
      ids[local] = best.y;
    }
  }
  workgroupBarrier();
}

// How many of this and higher numbers: sums[local] over the numbers from `local` on.
fn sum_from(local: u32, value: u32) -> u32 {
  var side = 0u;
  sums[local] = value;
  for (var step = 1u; step < 256u; step *= 2u) {
    workgroupBarrier();
    var sum = sums[side + local];
    if local + step < 256u {
      sum += sums[side + local + step];
    }
    side = 256u - side;
    sums[side + local] = sum;
  }
  workgroupBarrier();
  return side;
}

// The key of the wanted-th best group, digit by digit.
fn find_threshold(row: u32, local: u32, top_k: u32) -> u32 {
  var group_keys: array<u32, GROUPS_EACH>;
  for (var i = 0u; i < GROUPS_EACH; i++) {
    group_keys[i] = best_in[row * GROUPS + i * 256u + local].x;
  }
  var threshold = 0u;
  var wanted = top_k;
  for (var shift = 32u; shift > 0u; shift -= 8u) {
    atomicStore(&histogram[local], 0u);
    workgroupBarrier();
    for (var i = 0u; i < GROUPS_EACH; i++) {
      let key = group_keys[i];
      if shift == 32u || key >> (shift % 32u) == threshold {
        atomicAdd(&histogram[(key >> (shift - 8u)) & 255u], 1u);
      }
    }
    workgroupBarrier();
    let side = sum_from(local, atomicLoad(&histogram[local]));
    var above = 0u;
    if local < 255u {
      above = sums[side + local + 1u];
    }
    if sums[side + local] >= wanted && above < wanted {
      digit = vec2(local, wanted - above);
    }
    let next = workgroupUniformLoad(&digit);
    threshold = (threshold << 8u) | next.x;
    wanted = next.y;
  }
  return threshold;
}

// All logits from the threshold on: how many, and the first CANDIDATES of them in no order.
fn gather(row: u32, local: u32, threshold: u32) -> u32 {
  if local == 0u {
    atomicStore(&candidate_count, 0u);
  }
  for (var i = local; i < CANDIDATES; i += 256u) {
    keys[i] = 0u;
    ids[i] = 0xffffffffu;
  }
  workgroupBarrier();
  for (var group = local; group < GROUPS; group += 256u) {
    if best_in[row * GROUPS + group].x < threshold {
      continue;
    }
    for (var id = group; id < VOCABULARY; id += GROUPS) {
      let key = adjusted_key(id, load_act(param(0u) + row * VOCABULARY + id));
      if key >= threshold {
        let place = atomicAdd(&candidate_count, 1u);
        if place < CANDIDATES {
          keys[place] = key;
          ids[place] = id;
        }
      }
    }
  }
  workgroupBarrier();
  if local == 0u {
    shared_count = atomicLoad(&candidate_count);
  }
  return workgroupUniformLoad(&shared_count);
}

// Bitonic, best first; `count` is a power of two.
fn sort(count: u32, local: u32) {
  for (var size = 2u; size <= count; size *= 2u) {
    for (var distance = size / 2u; distance > 0u; distance /= 2u) {
      if local < count / 2u {
        let a = local / distance * distance * 2u + local % distance;
        let b = a + distance;
        let first = vec2(keys[a], ids[a]);
        let second = vec2(keys[b], ids[b]);
        let is_descending = (a & size) == 0u;
        if is_better(second, first) == is_descending {
          keys[a] = second.x;
          ids[a] = second.y;
          keys[b] = first.x;
          ids[b] = first.y;
        }
      }
      workgroupBarrier();
    }
  }
}

// masses[result + i]: the sum of the values up to i.
fn sum_masses(local: u32, value: f32) -> u32 {
  var side = 0u;
  if local < MOST_KEPT {
    masses[local] = value;
  }
  for (var step = 1u; step < MOST_KEPT; step *= 2u) {
    workgroupBarrier();
    var sum = 0.0;
    if local < MOST_KEPT {
      sum = masses[side + local];
      if local >= step {
        sum += masses[side + local - step];
      }
    }
    side = MOST_KEPT - side;
    if local < MOST_KEPT {
      masses[side + local] = sum;
    }
  }
  workgroupBarrier();
  return side;
}

fn first_found(local: u32, holds: bool, otherwise: u32) -> u32 {
  if local == 0u {
    atomicStore(&found, otherwise);
  }
  workgroupBarrier();
  if holds {
    atomicMin(&found, local);
  }
  workgroupBarrier();
  if local == 0u {
    shared_count = atomicLoad(&found);
  }
  return workgroupUniformLoad(&shared_count);
}

// exp((logit - best) / temperature) of a kept candidate, else 0.
fn mass_of(local: u32, kept: u32, temperature: f32) -> f32 {
  if local >= kept {
    return 0.0;
  }
  return exp((value_of(keys[local]) - value_of(keys[0])) / temperature);
}

// Of the best `count`, sorted: those that top-p and min-p leave, then the draw. Its place.
fn draw(local: u32, count: u32) -> u32 {
  var kept = count;
  let top_p = reply_float(REPLY_TOP_P);
  let listed = sum_masses(local, mass_of(local, kept, 1.0));
  let goal = top_p * masses[listed + MOST_KEPT - 1u];
  let reaches = top_p < 1.0 && local < MOST_KEPT && masses[listed + min(local, MOST_KEPT - 1u)] >= goal;
  kept = min(kept, first_found(local, reaches, kept) + 1u);
  let least = value_of(keys[0]) + reply_float(REPLY_LOG_MIN_P);
  let is_small = local > 0u && local < kept && value_of(keys[min(local, CANDIDATES - 1u)]) < least;
  kept = first_found(local, is_small, kept);
  let weighed = sum_masses(local, mass_of(local, kept, reply_float(REPLY_TEMPERATURE)));
  let seed = vec2(reply_word(REPLY_SEED), reply_word(REPLY_SEED + 1u));
  let number = philox_uniform(seed, reply_word(REPLY_INDEX)) * masses[weighed + MOST_KEPT - 1u];
  let passes = local < kept && masses[weighed + min(local, MOST_KEPT - 1u)] > number;
  return first_found(local, passes, kept - 1u);
}

// Ends with a barrier.
fn load_reply(local: u32) {
  for (var i = local; i < REPLY_WORDS; i += 256u) {
    words[i] = atomicLoad(&state[reply + i]);
  }
  if local < END_TOKENS {
    end_tokens[local] = atomicLoad(&state[param(3u) + local]);
  }
  workgroupBarrier();
}

fn is_end(id: u32) -> bool {
  for (var i = 0u; i < END_TOKENS; i++) {
    if end_tokens[i] == id {
      return true;
    }
  }
  return false;
}

// The row's reply goes on with `id`; why it does not, if so.
fn advance(row: u32, id: u32) -> u32 {
  let at = STATE_FIRST_ROW + 4u * row;
  atomicStore(&state[at], id);
  atomicAdd(&state[at + 1u], 1u);
  let end = reply_word(REPLY_HISTORY_END);
  atomicStore(&state[reply + REPLY_HISTORY + end % REPLY_WINDOW], id);
  atomicStore(&state[reply + REPLY_HISTORY_END], end + 1u);
  atomicStore(&state[reply + REPLY_INDEX], reply_word(REPLY_INDEX) + 1u);
  let remaining = reply_word(REPLY_REMAINING) - 1u;
  atomicStore(&state[reply + REPLY_REMAINING], remaining);
  return u32(remaining == 0u || (reply_word(REPLY_IGNORES_END) == 0u && is_end(id)));
}

// By the last row of the run to come here: whether more is to be done.
fn arrive(has_ended: u32, needs_host: u32) {
  let mine = 1u + (has_ended << 8u) + (needs_host << 16u);
  let all = atomicAdd(&state[STATE_ARRIVED], mine) + mine;
  if (all & 255u) != atomicLoad(&state[STATE_OUTPUTS]) {
    return;
  }
  atomicStore(&state[STATE_ARRIVED], 0u);
  let live = atomicLoad(&state[STATE_LIVE]) - ((all >> 8u) & 255u);
  atomicStore(&state[STATE_LIVE], live);
  if live == 0u || all >> 16u != 0u {
    atomicStore(&state[STATE_STOP], 1u);
  }
}

// Record: the token, its index, whether the host must choose it.
fn settle(row: u32, id: u32, needs_host: u32) {
  let had_ended = reply_word(REPLY_ENDED) != 0u;
  let record = param(2u) + 4u * row;
  atomicStore(&state[record], id);
  atomicStore(&state[record + 1u], reply_word(REPLY_INDEX));
  atomicStore(&state[record + 2u], select(needs_host, 0u, had_ended));
  if had_ended {
    arrive(0u, 0u);
    return;
  }
  var has_ended = needs_host;
  if needs_host == 0u {
    has_ended = advance(row, id);
  }
  atomicStore(&state[reply + REPLY_ENDED], has_ended);
  arrive(has_ended, needs_host);
}

fn choose(row: u32, local: u32) {
  reply = param(1u) + row * REPLY_WORDS;
  load_reply(local);
  load_adjustment(local);
  choose_best(row, local);
  if local == 0u {
    digit = vec2(keys[0], min(reply_word(REPLY_TOP_K), VOCABULARY));
  }
  let start = workgroupUniformLoad(&digit);
  var place = 0u;
  var needs_host = u32(start.x >= INFINITY_KEY || start.x <= FORBIDDEN_KEY);
  if start.y > 0u && needs_host == 0u {
    let threshold = max(find_threshold(row, local, start.y), FORBIDDEN_KEY + 1u);
    let count = gather(row, local, threshold);
    if count > CANDIDATES {
      needs_host = 1u;
    } else {
      var size = 2u;
      while size < count {
        size *= 2u;
      }
      sort(size, local);
      place = draw(local, min(start.y, count));
    }
  }
  if local == 0u {
    settle(row, ids[place], needs_host);
  }
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  if local == 0u {
    is_going = u32(atomicLoad(&state[STATE_STOP]) == 0u && id.x < atomicLoad(&state[STATE_OUTPUTS]));
  }
  if workgroupUniformLoad(&is_going) == 0u {
    return;
  }
  choose(id.x, local);
}
