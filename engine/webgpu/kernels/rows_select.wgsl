// rows_select: y[i] = x[output_rows[i]]: the rows whose logits are wanted.
// Layout: x, y (rows, WIDTH). Dispatch: output count x ceil(WIDTH / 256) workgroups. params: x, y.
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let blocks = (WIDTH + 255u) / 256u;
  let block = group.y * groups.x + group.x;
  let index = block / blocks;
  let i = block % blocks * 256u + local;
  if index < output_count() && i < WIDTH {
    store_act(param(1u) + index * WIDTH + i, load_act(param(0u) + output_row(index) * WIDTH + i));
  }
}
