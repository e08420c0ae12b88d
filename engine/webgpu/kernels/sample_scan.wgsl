// sample_scan: the best logit of each group of a row, of equal ones that with the smaller id.
// Layout:   logits (rows, VOCABULARY); group g has the ids g, g + GROUPS, g + 2 GROUPS, …, so that neighbours
//           read neighbours; best (rows, GROUPS) of (key, id), key 0 where a group has no id.
// Dispatch: GROUPS / 256 workgroups for each row.
// Params:   0 logits; 1 replies, in the state.
var<private> reply: u32;

fn reply_word(i: u32) -> u32 {
  return state[reply + i];
}

fn scan(row: u32, group: u32, local: u32) {
  reply = param(1u) + row * REPLY_WORDS;
  load_adjustment(local);
  var best = vec2(0u, 0u);
  for (var id = group; id < VOCABULARY; id += GROUPS) {
    let key = adjusted_key(id, load_act(param(0u) + row * VOCABULARY + id));
    if key > best.x {
      best = vec2(key, id);
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
