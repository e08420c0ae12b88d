// Columns 4 c .. 4 c + 3 of a row of x; COLUMNS % 4 == 0.
const X_IS_IN_PARTS = false;
fn load_x4(token: u32, c: u32) -> vec4<f32> {
  if c >= COLUMNS / 4u {
    return vec4<f32>();
  }
  return load_act4(param(0u) / 4u + token * (COLUMNS / 4u) + c);
}
fn prepare_x(local: u32) {}
