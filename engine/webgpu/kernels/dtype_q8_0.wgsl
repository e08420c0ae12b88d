// Q8_0: signed bytes, f16 scales; weight = q * scale.
const Q8_0_SCALES = 16u * BLOCKS;
const Q8_0_GROUP = Q8_0_SCALES + BLOCKS;
fn load_block_q8_0(window: u32, group: u32, local: u32) -> Block {
  let scale = load_half(window, group + Q8_0_SCALES, local);
  let q0 = load_weight4(window, group + 2u * local);
  let q1 = load_weight4(window, group + 2u * local + 1u);
  return Block(array<vec4<f32>, 8>(vec4<f32>(unpack4xI8(q0.x)), vec4<f32>(unpack4xI8(q0.y)),
                                   vec4<f32>(unpack4xI8(q0.z)), vec4<f32>(unpack4xI8(q0.w)),
                                   vec4<f32>(unpack4xI8(q1.x)), vec4<f32>(unpack4xI8(q1.y)),
                                   vec4<f32>(unpack4xI8(q1.z)), vec4<f32>(unpack4xI8(q1.w))),
               vec2<f32>(scale));
}
