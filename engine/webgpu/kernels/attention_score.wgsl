// attention_score: what both attention kernels make of a product of q and k.
const LEAST = -3.0e38;  // below every score, and finite: WGSL promises nothing about infinity

// exp(x) for x <= 0.
fn weight_of(x: f32) -> f32 {
  return exp(max(x, -87.0));
}

// cap * tanh(x / cap), or x where the model has no cap. tanh by exp, which is exact enough and does
// not overflow on any device.
fn capped(x: f32) -> f32 {
  if HAS_SOFT_CAP == 0u {
    return x;
  }
  let e = exp(-2.0 * min(abs(x) / SOFT_CAP, 40.0));
  return sign(x) * SOFT_CAP * (1.0 - e) / (1.0 + e);
}

// The first position that a token sees.
fn first_seen(position: u32) -> u32 {
  if WINDOW == 0u || position < WINDOW {
    return 0u;
  }
  return position + 1u - WINDOW;
}
