// head_rows: q, k and v of a row as the products of norm_qkv leave them, and what becomes of a head:
// its norm (if HAS_HEAD_NORMS) and its rotation.
// Layout: (rows, (HEADS + 2 * KV_HEADS) * HEAD_DIM), q first, then k, then v.
// params: 0 these rows, 2 frequencies, 3 magnitude, 4 eps, 5 norm of q, 6 norm of k.
const UNITS = HEADS + 2u * KV_HEADS;  // heads of a row

fn head_at(row: u32, unit: u32) -> u32 {
  return param(0u) + (row * UNITS + unit) * HEAD_DIM;
}

fn norm_factor_of(squares: f32) -> f32 {
  return 1.0 / sqrt(squares / f32(HEAD_DIM) + param_f32(4u));
}

// Element i of the head of q or k that begins at x. `norm` is its weight in vectors.
fn normed(x: u32, norm: u32, factor: f32, i: u32) -> f32 {
  if HAS_HEAD_NORMS == 0u {
    return load_act(x + i);
  }
  return load_act(x + i) * factor * load_vector(norm + i);
}

fn turned(x: u32, norm: u32, factor: f32, position: u32, i: u32) -> f32 {
  if i >= ROTATED_DIM {
    return normed(x, norm, factor, i);
  }
  let pair = select(i / 2u, i % ROPE_PAIRS, ROPE_HALVES != 0u);
  let first = normed(x, norm, factor, pair_first(pair));
  let second = normed(x, norm, factor, pair_second(pair));
  let result = rotate(vec2(first, second), position, param(2u) + 2u * pair, param_f32(3u));
  return select(result.y, result.x, i == pair_first(pair));
}
