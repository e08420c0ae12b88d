// For matvec.wgsl: lanes of one subgroup are summed by shuffles. Subgroups may have any size, a power
// of two; that neighbours of a workgroup are neighbours of a subgroup is what the self-test checks.
var<private> subgroup_width: u32;

fn lanes_together() -> u32 {
  return min(LANES, subgroup_width);
}
fn lane_sum(value: f32) -> f32 {
  var sum = value;
  for (var k = 1u; k < LANES; k *= 2u) {
    let other = subgroupShuffleXor(sum, k);
    sum += select(0.0, other, k < subgroup_width);
  }
  return sum;
}

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(num_workgroups) count: vec3<u32>,
        @builtin(local_invocation_index) local: u32, @builtin(subgroup_size) width: u32) {
  subgroup_width = width;
  matvec(id.y * count.x + id.x, local);
}
