// resident_stage: the input of a product of resident.wgsl (ROLE, as in resident_product.wgsl) that lies in one piece:
// to workgroup memory; and to `sums` the squares of what this invocation has staged.
fn stage_ROLE(layer: u32, local: u32, sums: ptr<function, Sums>) {
  var norms: array<f32, STAGED_ROLE>;
  var seen = array<TeamU32, STAGED_ROLE>();
  for (var k = 0u; k < STAGED_ROLE; k++) {
    norms[k] = norm_ROLE(layer, min(k * WORKGROUP + local, COLUMNS_ROLE - 1u));
  }
  loop {
    var is_there = true;
    for (var k = 0u; k < STAGED_ROLE; k++) {
      if !are_there(seen[k]) {
        seen[k] = look_ROLE(layer, min(k * WORKGROUP + local, COLUMNS_ROLE - 1u));
      }
    }
    for (var k = 0u; k < STAGED_ROLE; k++) {
      is_there = is_there && are_there(seen[k]);
    }
    if !waits(is_there) {
      break;
    }
  }
  for (var k = 0u; k < STAGED_ROLE; k++) {
    let column = k * WORKGROUP + local;
    if column < COLUMNS_ROLE {
      let x = bitcast<TeamF32>(seen[k]);
      (*sums).squared += x * x;
      xs[column % 32u * STRIDE_ROLE + column / 32u] = x * norms[k];
    }
  }
}
