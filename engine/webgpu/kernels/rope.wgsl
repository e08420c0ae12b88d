// rope: rotary position embedding of one pair. Su et al. 2021.
// A frequency is the fraction of a turn that a position adds, in 40 bits: two floats of `vectors`
// (webgpu/rows.h). Position times frequency is then exact in integers, however long the context; in
// f32 it would be off by 4e-3 at position 100,000.
const ROPE_PAIRS = ROTATED_DIM / 2u;

// The angle in units of 2^-32 turns.
fn rope_turn(position: u32, frequency: u32) -> u32 {
  let high = u32(load_vector(frequency));      // in 2^-24 turns
  let low = u32(load_vector(frequency + 1u));  // in 2^-40 turns
  return ((position * high) << 8u) + (((position & 0xffffu) * low) >> 8u) +
    (((position >> 16u) * low) << 8u);
}

// Taylor series on an eighth of a turn: WGSL promises no more than 2^-11 of cos and sin.
fn cos_sin(turn: u32) -> vec2<f32> {
  let quadrant = (turn + 0x20000000u) >> 30u;
  let x = f32(bitcast<i32>(turn - (quadrant << 30u))) * 1.4629180792671596e-9;  // 2 pi / 2^32
  let y = x * x;
  let c = 1.0 + y * (-0.5 + y * (4.1666667e-2 + y * (-1.3888889e-3 + y * 2.4801587e-5)));
  let s = x + x * y * (-1.6666667e-1 + y * (8.3333333e-3 + y * (-1.984127e-4 + y * 2.7557319e-6)));
  let turned = select(vec2(c, s), vec2(-s, c), (quadrant & 1u) != 0u);
  return select(turned, -turned, (quadrant & 2u) != 0u);
}

// The elements of a head that make a pair: (i, i + pairs), or neighbours.
fn pair_first(pair: u32) -> u32 {
  return select(2u * pair, pair, ROPE_HALVES != 0u);
}
fn pair_second(pair: u32) -> u32 {
  return select(2u * pair + 1u, pair + ROPE_PAIRS, ROPE_HALVES != 0u);
}

fn rotate(pair: vec2<f32>, position: u32, frequency: u32, magnitude: f32) -> vec2<f32> {
  let r = cos_sin(rope_turn(position, frequency)) * magnitude;
  return vec2(pair.x * r.x - pair.y * r.y, pair.x * r.y + pair.y * r.x);
}
