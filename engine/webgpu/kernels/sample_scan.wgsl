// sample_scan: the best logit of each group of a row, of equal ones that with the smaller id.
// Layout:   logits (rows, VOCABULARY); group g has the ids g, g + GROUPS, g + 2 GROUPS, …, so that neighbours
//           read neighbours; best (rows, GROUPS) of (key, id), key 0 where a group has no id.
// Dispatch: GROUPS / 256 workgroups for each row.
// Params:   0 logits; 1 replies, in the state.
const ELEMENTS = (VOCABULARY + GROUPS - 1u) / GROUPS;  // of a group
const UNROLL = 4u;                                     // logits that are fetched at a time

var<private> reply: u32;

fn reply_word(i: u32) -> u32 {
  return state[reply + i];
}

fn scan(row: u32, group: u32, local: u32) {
  reply = param(1u) + row * REPLY_WORDS;
  load_adjustment(local);
  var best = vec2(0u, 0u);
  for (var first = 0u; first < ELEMENTS; first += UNROLL) {
    var logits: array<f32, UNROLL>;
    for (var k = 0u; k < UNROLL; k++) {
      let id = min(group + (first + k) * GROUPS, VOCABULARY - 1u);
      logits[k] = load_act(param(0u) + row * VOCABULARY + id);
    }
    for (var k = 0u; k < UNROLL; k++) {
      let id = group + (first + k) * GROUPS;
      let key = adjusted_key(id, logits[k]);
      if id < VOCABULARY && key > best.x {
        best = vec2(key, id);
      }
    }
  }
  best_out[row * GROUPS + group] = best;
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let row = id.x / (GROUPS / 256u);
  if is_stopped() || row >= output_count() {
    return;
  }
  scan(row, id.x % (GROUPS / 256u) * 256u + local, local);
}
