// Columns 4 c .. 4 c + 3 of the weights of an RMSNorm.
fn norm_weight4(c: u32) -> vec4<f32> {
  return load_vector4(param(3u) / 4u + c);
}
