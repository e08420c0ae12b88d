// kv_write: two neighbouring values of a row of the cache (kv.wgsl). `first` is even.
fn store_kv(row: u32, first: u32, a: f32, b: f32) {
  if KV_F32 != 0u {
    cache[row + first] = bitcast<u32>(a);
    cache[row + first + 1u] = bitcast<u32>(b);
  } else {
    cache[row + first / 2u] = to_halves(a, b);
  }
}
