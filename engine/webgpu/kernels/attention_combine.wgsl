// attention_combine: y[r, h] of the parts that attention_decode has left (attention_parts.wgsl).
// Layout: y (rows, HEADS, HEAD_DIM). Dispatch: an invocation for each element. params: 1 y.
fn combine(row: u32, head: u32, i: u32) -> f32 {
  let count = ranges_of(row_position(row)).count;
  var most = LEAST;
  for (var range = 0u; range < count; range++) {
    most = max(most, load_act(stat_at(row, range, head)));
  }
  var sum = 0.0;
  var weight = 0.0;
  for (var range = 0u; range < count; range++) {
    let stat = stat_at(row, range, head);
    let factor = weight_of(load_act(stat) - most);
    sum += factor * load_act(part_at(row, range, head) + i);
    weight += factor * load_act(stat + 1u);
  }
  return sum / weight;
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let i = (group.y * groups.x + group.x) * 256u + local;
  let row = i / (HEADS * HEAD_DIM);
  if is_stopped() || row >= token_count() {
    return;
  }
  store_act(param(1u) + i, combine(row, i / HEAD_DIM % HEADS, i % HEAD_DIM));
}
