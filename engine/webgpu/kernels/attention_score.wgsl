// attention_score: cap * tanh(x / cap), or x where the model has no cap. tanh by exp, which is exact enough and
// does not overflow on any device.
fn capped(x: f32) -> f32 {
  if HAS_SOFT_CAP == 0u {
    return x;
  }
  let e = exp(-2.0 * min(abs(x) / SOFT_CAP, 40.0));
  return sign(x) * SOFT_CAP * (1.0 - e) / (1.0 + e);
}
