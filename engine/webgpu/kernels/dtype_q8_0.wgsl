// Q8_0: signed bytes, f16 scales; weight = q * scale.
const Q8_0_GROUP = 17u * BLOCKS;
fn fetch_q8_0(window: u32, group: u32, local: u32, blocks: u32) -> Raw {
  let scale = load_16(window, group + 16u * blocks, local);
  return Raw(load_weight4(window, group + 2u * local), load_weight4(window, group + 2u * local + 1u),
             vec4(scale, 0u, 0u, 0u));
}
fn signed_bytes(q: vec4<u32>, r: vec4<u32>) -> array<vec4<f32>, 8> {
  return array<vec4<f32>, 8>(vec4<f32>(unpack4xI8(q.x)), vec4<f32>(unpack4xI8(q.y)),
                             vec4<f32>(unpack4xI8(q.z)), vec4<f32>(unpack4xI8(q.w)),
                             vec4<f32>(unpack4xI8(r.x)), vec4<f32>(unpack4xI8(r.y)),
                             vec4<f32>(unpack4xI8(r.z)), vec4<f32>(unpack4xI8(r.w)));
}
fn decode_q8_0(raw: Raw) -> Block {
  return Block(signed_bytes(raw.q, raw.r), vec2<f32>(unpack2x16float(raw.s.x).x));
}
fn load_block_q8_0(window: u32, group: u32, local: u32) -> Block {
  return decode_q8_0(fetch_q8_0(window, group, local, BLOCKS));
}
