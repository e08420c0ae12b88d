// y = residual + a, the residual being (rows, width of y) in the second arena.
fn epilogue_operand(at: u32) -> f32 {
  return load_act2(param(15u) + at - param(1u));
}
fn epilogue(operand: f32, a: f32, b: f32) -> f32 {
  return operand + a;
}
