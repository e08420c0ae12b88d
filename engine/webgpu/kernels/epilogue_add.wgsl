// y += a.
fn epilogue_operand(at: u32) -> f32 {
  return load_out(at);
}
fn epilogue(operand: f32, a: f32, b: f32) -> f32 {
  return operand + a;
}
