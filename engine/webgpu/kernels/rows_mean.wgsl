// rows_mean: y[r, g] = mean of x[r, g, 0 .. GROUP). A workgroup of 64 for each row and group.
// Layout: x (rows, groups, GROUP), y (rows, groups). params: x, y. Glue: run_rows.
var<workgroup> partial_sums: array<f32, 64>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let index = group.y * groups.x + group.x;
  if index >= run_rows() * GROUPS {
    return;
  }
  var sum = 0.0;
  for (var i = local; i < GROUP; i += 64u) {
    sum += load_act(param(0u) + index * GROUP + i);
  }
  partial_sums[local] = sum;
  workgroupBarrier();
  if local == 0u {
    var total = 0.0;
    for (var i = 0u; i < 64u; i++) {
      total += partial_sums[i];
    }
    store_act(param(1u) + index, total / f32(GROUP));
  }
}
