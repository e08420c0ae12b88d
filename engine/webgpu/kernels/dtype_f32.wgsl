// F32: weights as they are.
const F32_GROUP = 64u * BLOCKS;
fn f32_4(window: u32, i: u32) -> vec4<f32> {
  return bitcast<vec4<f32>>(load_weight4(window, i));
}
fn load_block_f32(window: u32, group: u32, local: u32) -> Block {
  let i = group + 8u * local;
  return Block(array<vec4<f32>, 8>(f32_4(window, i), f32_4(window, i + 1u), f32_4(window, i + 2u),
                                   f32_4(window, i + 3u), f32_4(window, i + 4u), f32_4(window, i + 5u),
                                   f32_4(window, i + 6u), f32_4(window, i + 7u)),
               vec2<f32>(1.0));
}
