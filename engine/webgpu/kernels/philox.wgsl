// Philox4x32-10 (session/philox.h), bit for bit.
fn product_high(a: u32, b: u32) -> u32 {
  let low = (a & 0xffffu) * (b & 0xffffu);
  let middle1 = (a >> 16u) * (b & 0xffffu) + (low >> 16u);
  let middle2 = (a & 0xffffu) * (b >> 16u) + (middle1 & 0xffffu);
  return (a >> 16u) * (b >> 16u) + (middle1 >> 16u) + (middle2 >> 16u);
}

// In [0, 1), a multiple of 2^-24.
fn philox_uniform(seed: vec2<u32>, index: u32) -> f32 {
  var counter = vec4(index, 0u, 0u, 0u);
  var key = seed;
  for (var i = 0u; i < 10u; i++) {
    counter = vec4(product_high(0xcd9e8d57u, counter.z) ^ counter.y ^ key.x, 0xcd9e8d57u * counter.z,
                   product_high(0xd2511f53u, counter.x) ^ counter.w ^ key.y, 0xd2511f53u * counter.x);
    key += vec2(0x9e3779b9u, 0xbb67ae85u);
  }
  return f32(counter.x >> 8u) * 0x1p-24;
}
