// F16: two weights a word.
const F16_GROUP = 32u * BLOCKS;
fn f16_4(words: vec2<u32>) -> vec4<f32> {
  return vec4<f32>(unpack2x16float(words.x), unpack2x16float(words.y));
}
fn load_block_f16(window: u32, group: u32, local: u32) -> Block {
  let i = group + 4u * local;
  let a = load_weight4(window, i);
  let b = load_weight4(window, i + 1u);
  let c = load_weight4(window, i + 2u);
  let d = load_weight4(window, i + 3u);
  return Block(array<vec4<f32>, 8>(f16_4(a.xy), f16_4(a.zw), f16_4(b.xy), f16_4(b.zw),
                                   f16_4(c.xy), f16_4(c.zw), f16_4(d.xy), f16_4(d.zw)),
               vec2<f32>(1.0));
}
