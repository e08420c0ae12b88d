// BF16: two weights a word, each the high half of an f32.
const BF16_GROUP = 32u * BLOCKS;
fn bf16_4(words: vec2<u32>) -> vec4<f32> {
  return bitcast<vec4<f32>>(vec4<u32>(words.x << 16u, words.x & 0xffff0000u,
                                      words.y << 16u, words.y & 0xffff0000u));
}
fn load_block_bf16(window: u32, group: u32, local: u32) -> Block {
  let i = group + 4u * local;
  let a = load_weight4(window, i);
  let b = load_weight4(window, i + 1u);
  let c = load_weight4(window, i + 2u);
  let d = load_weight4(window, i + 3u);
  return Block(array<vec4<f32>, 8>(bf16_4(a.xy), bf16_4(a.zw), bf16_4(b.xy), bf16_4(b.zw),
                                   bf16_4(c.xy), bf16_4(c.zw), bf16_4(d.xy), bf16_4(d.zw)),
               vec2<f32>(1.0));
}
