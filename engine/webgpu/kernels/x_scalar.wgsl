// Columns 4 c .. 4 c + 3 of a row of x, whatever its width.
const X_IS_IN_PARTS = false;
fn load_x(token: u32, column: u32) -> f32 {
  if column >= COLUMNS {
    return 0.0;
  }
  return load_act(param(0u) + token * COLUMNS + column);
}
fn load_x4(token: u32, c: u32) -> vec4<f32> {
  return vec4<f32>(load_x(token, 4u * c), load_x(token, 4u * c + 1u), load_x(token, 4u * c + 2u),
                   load_x(token, 4u * c + 3u));
}
fn prepare_x(local: u32) {}
