// rms_norm: y[r, g, i] = x[r, g, i] / sqrt(mean_i(x[r, g, i]^2) + eps) * w[i], plus a residual if
// HAS_RESIDUAL. Zhang & Sennrich 2019.
// Layout: x, y, residual (rows, GROUPS, GROUP) row-major; w (GROUP). Accumulates in f32.
// Dispatch: a workgroup of 256 for each row and group. x or the residual may be y.
// Glue: load_x, load_residual, run_rows.
// params: x, y, w, eps, residual.
var<workgroup> partial_sums: array<f32, 256>;

fn sum_of_squares(x: u32, local: u32) -> f32 {
  var sum = 0.0;
  for (var i = local; i < GROUP; i += 256u) {
    let value = load_x(x + i);
    sum += value * value;
  }
  partial_sums[local] = sum;
  workgroupBarrier();
  for (var stride = 128u; stride > 16u; stride /= 2u) {
    if local < stride {
      partial_sums[local] += partial_sums[local + stride];
    }
    workgroupBarrier();
  }
  var total = 0.0;
  for (var i = 0u; i < 32u; i++) {
    total += partial_sums[i];
  }
  return total;
}

fn norm(index: u32, local: u32) {
  if index >= run_rows() * GROUPS {
    return;
  }
  let x = param(0u) + index * GROUP;
  let factor = 1.0 / sqrt(sum_of_squares(x, local) / f32(GROUP) + param_f32(3u));
  for (var i = local; i < GROUP; i += 256u) {
    var value = load_x(x + i) * factor * load_vector(param(2u) + i);
    if HAS_RESIDUAL != 0u {
      value = load_residual(param(4u) + index * GROUP + i) + value;
    }
    store_act(param(1u) + index * GROUP + i, value);
  }
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  norm(group.y * groups.x + group.x, local);
}
