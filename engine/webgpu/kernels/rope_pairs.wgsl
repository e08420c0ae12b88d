// rope_pairs: rotary position embedding of one pair of a head (Su et al. 2021; rope.wgsl has the angle).
const ROPE_PAIRS = ROTATED_DIM / 2u;

// The elements of a head that make a pair: (i, i + pairs), or neighbours.
fn pair_first(pair: u32) -> u32 {
  return select(2u * pair, pair, ROPE_HALVES != 0u);
}
fn pair_second(pair: u32) -> u32 {
  return select(2u * pair + 1u, pair + ROPE_PAIRS, ROPE_HALVES != 0u);
}

// `frequency` is where it lies in vectors.
fn rotate(pair: vec2<f32>, position: u32, frequency: u32, magnitude: f32) -> vec2<f32> {
  let r = rotation(position, frequency) * magnitude;
  return vec2(pair.x * r.x - pair.y * r.y, pair.x * r.y + pair.y * r.x);
}
