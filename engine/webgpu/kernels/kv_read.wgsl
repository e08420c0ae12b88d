// kv_read: eight neighbouring values of a row of the cache (kv.wgsl), or two. Read in vectors.
struct Kv8 {
  low: vec4<f32>,
  high: vec4<f32>,
}

fn load_kv8(row: u32, chunk: u32) -> Kv8 {
  let at = row / 4u;
  if KV_F32 != 0u {
    return Kv8(bitcast<vec4<f32>>(cache[at + 2u * chunk]),
               bitcast<vec4<f32>>(cache[at + 2u * chunk + 1u]));
  }
  let words = cache[at + chunk];
  return Kv8(vec4(unpack2x16float(words.x), unpack2x16float(words.y)),
             vec4(unpack2x16float(words.z), unpack2x16float(words.w)));
}

fn load_kv_word(at: u32) -> u32 {
  return cache[at / 4u][at % 4u];
}

fn load_kv2(row: u32, pair: u32) -> vec2<f32> {
  if KV_F32 != 0u {
    return vec2(bitcast<f32>(load_kv_word(row + 2u * pair)),
                bitcast<f32>(load_kv_word(row + 2u * pair + 1u)));
  }
  return unpack2x16float(load_kv_word(row + pair));
}
