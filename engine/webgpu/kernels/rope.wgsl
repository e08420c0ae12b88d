// rope: cos and sin of position * frequency, to about 1e-7 whatever the driver's own sin does and
// however long the context. A frequency is the part of a turn that a position adds, in 40 bits (two
// whole numbers in vectors, EncodeFrequencies), so the product is exact in integers. In f32 it is off
// by 3e-4 at position 100,000 even in two parts, as drivers may join products and sums.

// The angle in units of 2^-32 turns.
fn rope_turn(position: u32, frequency: u32) -> u32 {
  let high = u32(load_vector(frequency));      // in 2^-24 turns
  let low = u32(load_vector(frequency + 1u));  // in 2^-40 turns
  return ((position * high) << 8u) + (((position & 0xffffu) * low) >> 8u) +
    (((position >> 16u) * low) << 8u);
}

// `frequency` is where it lies in vectors. Taylor series on an eighth of a turn: WGSL promises no more
// than 2^-11 of cos and sin.
fn rotation(position: u32, frequency: u32) -> vec2<f32> {
  let turn = rope_turn(position, frequency);
  let quadrant = (turn + 0x20000000u) >> 30u;
  let x = f32(bitcast<i32>(turn - (quadrant << 30u))) * 1.4629180792671596e-9;  // 2 pi / 2^32
  let y = x * x;
  let c = 1.0 + y * (-0.5 + y * (4.1666667e-2 + y * (-1.3888889e-3 + y * 2.4801587e-5)));
  let s = x + x * y * (-1.6666667e-1 + y * (8.3333333e-3 + y * (-1.984127e-4 + y * 2.7557319e-6)));
  let turned = select(vec2(c, s), vec2(-s, c), (quadrant & 1u) != 0u);
  return select(turned, -turned, (quadrant & 2u) != 0u);
}
