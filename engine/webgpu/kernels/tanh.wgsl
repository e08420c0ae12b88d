// tanh without overflow for any x: the built-in function may give NaN.
fn safe_tanh(x: f32) -> f32 {
  return 1.0 - 2.0 / (exp(2.0 * clamp(x, -20.0, 20.0)) + 1.0);
}
