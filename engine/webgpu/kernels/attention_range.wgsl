// attention_range: what a token sees, and how much it weighs.
const LEAST = -3.0e38;  // below every score, and finite: WGSL promises nothing about infinity

// exp(x) for x <= 0.
fn weight_of(x: f32) -> f32 {
  return exp(max(x, -87.0));
}

// The first position that a token sees.
fn first_seen(position: u32) -> u32 {
  if WINDOW == 0u || position < WINDOW {
    return 0u;
  }
  return position + 1u - WINDOW;
}
