// rows_kv_write: stores rows of k and v in the cache, at each token's position.
// Layout: k, v (rows, KV_HEADS, HEAD_DIM); cache: kv.wgsl.
// Dispatch: rows x ceil(2 * KV_HEADS * HEAD_DIM / 2 / 64) workgroups of 64. params: k, v.
// Glue: load_k, load_v.
const PAIRS = HEAD_DIM / 2u;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let blocks = (2u * KV_HEADS * PAIRS + 63u) / 64u;
  let block = group.y * groups.x + group.x;
  let row = block / blocks;
  let unit = block % blocks * 64u + local;
  if row >= token_count() || unit >= 2u * KV_HEADS * PAIRS {
    return;
  }
  let is_value = unit / (KV_HEADS * PAIRS);
  let head = unit / PAIRS % KV_HEADS;
  let first = unit % PAIRS * 2u;
  let at = (row * KV_HEADS + head) * HEAD_DIM + first;
  let position = row_position(row);
  let place = kv_row(page_of(row_sequence(row), position), is_value, head, position);
  if is_value == 0u {
    store_kv(place, first, load_k(param(0u) + at), load_k(param(0u) + at + 1u));
  } else {
    store_kv(place, first, load_v(param(1u) + at), load_v(param(1u) + at + 1u));
  }
}
