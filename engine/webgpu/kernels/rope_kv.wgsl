// rope_kv: what follows the products of norm_qkv: the norms of each head of q and k (if
// HAS_HEAD_NORMS), their rotation, and where they go: q to the activations, k and v to the cache.
// Layout: x (rows, (HEADS + 2 * KV_HEADS) * HEAD_DIM): q, k, v of each row; y (rows, HEADS, HEAD_DIM);
//   cache: kv.wgsl.
// Dispatch: rows * (HEADS + 2 * KV_HEADS) workgroups of 64. Requires: HEAD_DIM and ROTATED_DIM even.
// params: x, y, frequencies, magnitude, eps, norm of q, norm of k.
const PAIRS = HEAD_DIM / 2u;
const UNITS = HEADS + 2u * KV_HEADS;

var<workgroup> partial_sums: array<f32, 64>;

fn norm_factor(x: u32, local: u32) -> f32 {
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
  return 1.0 / sqrt(total / f32(HEAD_DIM) + param_f32(4u));
}

struct Head {
  row: u32,
  x: u32,        // its first element
  is_query: bool,
  is_value: bool,
  place: u32,    // row of the cache, or element of y
}

fn head_of(index: u32) -> Head {
  let row = index / UNITS;
  let unit = index % UNITS;
  let x = param(0u) + index * HEAD_DIM;
  if unit < HEADS {
    return Head(row, x, true, false, param(1u) + (row * HEADS + unit) * HEAD_DIM);
  }
  let is_value = unit >= HEADS + KV_HEADS;
  let kv_head = (unit - HEADS) % KV_HEADS;
  let position = row_position(row);
  let page = page_of(row_sequence(row), position);
  return Head(row, x, false, is_value,
              kv_row(page, u32(is_value), kv_head, position));
}

fn normed(head: Head, i: u32, factor: f32) -> f32 {
  let value = load_act(head.x + i);
  if HAS_HEAD_NORMS == 0u || head.is_value {
    return value;
  }
  return value * factor * load_vector(select(param(6u), param(5u), head.is_query) + i);
}

// Element i of the head as it is kept.
fn finished(head: Head, i: u32, factor: f32) -> f32 {
  if head.is_value || i >= ROTATED_DIM {
    return normed(head, i, factor);
  }
  let pair = select(i / 2u, i % ROPE_PAIRS, ROPE_HALVES != 0u);
  let values = vec2(normed(head, pair_first(pair), factor), normed(head, pair_second(pair), factor));
  let turned = rotate(values, row_position(head.row), param(2u) + 2u * pair, param_f32(3u));
  return select(turned.y, turned.x, i == pair_first(pair));
}

fn write_head(index: u32, local: u32) {
  if index >= token_count() * UNITS {
    return;
  }
  let head = head_of(index);
  var factor = 1.0;
  if HAS_HEAD_NORMS != 0u {
    factor = norm_factor(head.x, local);
  }
  for (var i = 2u * local; i < HEAD_DIM; i += 128u) {
    let a = finished(head, i, factor);
    let b = finished(head, i + 1u, factor);
    if head.is_query {
      store_act(head.place + i, a);
      store_act(head.place + i + 1u, b);
    } else {
      store_kv(head.place, i, a, b);
    }
  }
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  write_head(group.y * groups.x + group.x, local);
}
