// For matvec.wgsl: lanes meet in workgroup memory only.
fn lanes_together() -> u32 {
  return 1u;
}
fn lane_sum(value: f32) -> f32 {
  return value;
}

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(num_workgroups) count: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  matvec(id.y * count.x + id.x, local);
}
