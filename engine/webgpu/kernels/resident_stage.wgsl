// resident_stage: the input of a product of resident.wgsl (ROLE, as in resident_product.wgsl) that lies in one piece:
// to workgroup memory. Returns the squares of what this invocation has staged.
fn stage_ROLE(layer: u32, local: u32) -> f32 {
  var norms: array<f32, STAGED_ROLE>;
  var seen: array<u32, STAGED_ROLE>;
  for (var k = 0u; k < STAGED_ROLE; k++) {
    norms[k] = norm_ROLE(layer, min(k * WORKGROUP + local, COLUMNS_ROLE - 1u));
  }
  loop {
    var are_there = true;
    for (var k = 0u; k < STAGED_ROLE; k++) {
      seen[k] = look_ROLE(layer, min(k * WORKGROUP + local, COLUMNS_ROLE - 1u));
    }
    for (var k = 0u; k < STAGED_ROLE; k++) {
      are_there = are_there && seen[k] != 0u;
    }
    if !waits(are_there) {
      break;
    }
  }
  var squared = 0.0;
  for (var k = 0u; k < STAGED_ROLE; k++) {
    let column = k * WORKGROUP + local;
    if column < COLUMNS_ROLE {
      let x = bitcast<f32>(seen[k]);
      squared += x * x;
      xs[column % 32u * STRIDE_ROLE + column / 32u] = x * norms[k];
    }
  }
  return squared;
}
