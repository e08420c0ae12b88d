// rows_rope: y = x with the first ROTATED_DIM elements of each head rotated, one pair a thread.
// Layout: x, y (rows, HEADS, HEAD_DIM); x may be y. Glue: load_x.
// Dispatch: rows x ceil(HEADS * (HEAD_DIM / 2) / 64) workgroups of 64. params: x, y, frequencies,
// magnitude.
const PAIRS = HEAD_DIM / 2u;  // those that are not rotated are copied

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let blocks = (HEADS * PAIRS + 63u) / 64u;
  let block = group.y * groups.x + group.x;
  let row = block / blocks;
  let unit = block % blocks * 64u + local;
  if row >= token_count() || unit >= HEADS * PAIRS {
    return;
  }
  let head = row * HEADS * HEAD_DIM + unit / PAIRS * HEAD_DIM;
  let i = unit % PAIRS;
  var first = 2u * i;
  var second = 2u * i + 1u;
  let is_rotated = i < ROPE_PAIRS;
  if is_rotated {
    first = pair_first(i);
    second = pair_second(i);
  }
  var pair = vec2(load_x(param(0u) + head + first), load_x(param(0u) + head + second));
  if is_rotated {
    pair = rotate(pair, row_position(row), param(2u) + 2u * i, param_f32(3u));
  }
  store_act(param(1u) + head + first, pair.x);
  store_act(param(1u) + head + second, pair.y);
}
