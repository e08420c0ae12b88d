// kv_write8: eight neighbouring values of a row of the cache (kv.wgsl), in vectors.
fn store_kv8(row: u32, chunk: u32, v: array<f32, 8>) {
  if KV_F32 != 0u {
    let at = row / 4u + 2u * chunk;
    cache[at] = bitcast<vec4<u32>>(vec4(v[0], v[1], v[2], v[3]));
    cache[at + 1u] = bitcast<vec4<u32>>(vec4(v[4], v[5], v[6], v[7]));
  } else {
    cache[row / 4u + chunk] = vec4(to_halves(v[0], v[1]), to_halves(v[2], v[3]),
                                   to_halves(v[4], v[5]), to_halves(v[6], v[7]));
  }
}
