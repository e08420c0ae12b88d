// y = gelu(a) * b, the tanh form. Needs tanh.wgsl.
fn epilogue_operand(at: u32) -> f32 {
  return 0.0;
}
fn epilogue(operand: f32, a: f32, b: f32) -> f32 {
  let inner = 0.79788456 * a * (1.0 + 0.044715 * a * a);
  return 0.5 * a * (1.0 + safe_tanh(inner)) * b;
}
