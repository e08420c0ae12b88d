// The 3 window(s) of weights that a kernel binds. `window` is a constant where the kernel is compiled.
fn load_weight4(window: u32, i: u32) -> vec4<u32> {
  if window == 2u {
    return weights2[i];
  }
  if window == 1u {
    return weights1[i];
  }
  return weights0[i];
}
fn load_weight_word(window: u32, i: u32) -> u32 {
  if window == 2u {
    return weights2[i / 4u][i % 4u];
  }
  if window == 1u {
    return weights1[i / 4u][i % 4u];
  }
  return weights0[i / 4u][i % 4u];
}
