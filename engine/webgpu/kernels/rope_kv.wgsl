// rope_kv: what follows the products of norm_qkv: norms and rotation of the heads, q to the
// activations, k and v to the cache.
// Layout: x: head_rows.wgsl; y (rows, HEADS, HEAD_DIM); cache: kv.wgsl.
// Dispatch: at least rows * (HEADS + 2 * KV_HEADS) workgroups of 64. Requires: even HEAD_DIM and
// ROTATED_DIM. params: head_rows.wgsl; 1 y.
var<workgroup> partial_sums: array<f32, 64>;

fn norm_factor(x: u32, local: u32) -> f32 {
  if HAS_HEAD_NORMS == 0u {
    return 1.0;
  }
  var sum = 0.0;
  for (var i = local; i < HEAD_DIM; i += 64u) {
    let value = load_act(x + i);
    sum += value * value;
  }
  partial_sums[local] = sum;
  workgroupBarrier();
  var total = 0.0;
  for (var i = 0u; i < 64u; i++) {
    total += partial_sums[i];
  }
  return norm_factor_of(total);
}

fn write_head(index: u32, local: u32) {
  let row = index / UNITS;
  let unit = index % UNITS;
  if row >= token_count() {
    return;
  }
  let position = row_position(row);
  let x = head_at(row, unit);
  let factor = norm_factor(x, local);
  let is_query = unit < HEADS;
  let is_value = unit >= HEADS + KV_HEADS;
  let norm = select(param(6u), param(5u), is_query);
  let page = page_of(row_sequence(row), position);
  let place = kv_row(page, u32(is_value), (unit - HEADS) % KV_HEADS, position);
  for (var i = 2u * local; i < HEAD_DIM; i += 128u) {
    var pair = vec2(load_act(x + i), load_act(x + i + 1u));
    if !is_value {
      pair = vec2(turned(x, norm, factor, position, i), turned(x, norm, factor, position, i + 1u));
    }
    if is_query {
      let y = param(1u) + (row * HEADS + unit) * HEAD_DIM + i;
      store_act(y, pair.x);
      store_act(y + 1u, pair.y);
    } else {
      store_kv(place, i, pair.x, pair.y);
    }
  }
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  write_head(group.y * groups.x + group.x, local);
}
