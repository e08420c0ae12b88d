// read: reads all of `data` pass_count times and does next to nothing with it: what a kernel that did no
//       arithmetic could reach.
// Layout:   data (vectors); sums, one word for each workgroup.   Dispatch: any number of workgroups.
// Requires: whole vectors.   The passes are in one dispatch, so that none waits for another to end.
override workgroup_size: u32 = 256;

struct Params { pass_count: u32 }

@group(0) @binding(0) var<storage, read> data: array<vec4u>;
@group(0) @binding(1) var<storage, read_write> sums: array<u32>;
@group(0) @binding(2) var<uniform> params: Params;

@compute @workgroup_size(workgroup_size)
fn main(@builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) lane: u32,
        @builtin(workgroup_id) group: vec3u) {
  let stride = groups.x * workgroup_size;
  let count = arrayLength(&data);
  var sum = vec4u();
  for (var pass_index = 0u; pass_index < params.pass_count; pass_index++) {
    // The next pass has another share: of all workgroups only some run at a time, and the GPU's cache would
    // still hold what they have just read. So they move over all of the data, a quarter a pass.
    let share = (group.x + pass_index * (groups.x / 4u)) % groups.x;
    // Four loads under way at a time; the last ones of a pass one by one.
    var i = share * workgroup_size + lane;
    for (; i + 3u * stride < count; i += 4u * stride) {
      sum ^= data[i] ^ data[i + stride] ^ data[i + 2u * stride] ^ data[i + 3u * stride];
    }
    for (; i < count; i += stride) { sum ^= data[i]; }
    // So that no pass is the one before it again.
    sum += pass_index;
  }
  let word = sum.x ^ sum.y ^ sum.z ^ sum.w;
  // So that reading has a use for every lane; which of them is stored does not matter.
  if (word == 0x9e3779b9u || lane == 0u) { sums[group.x] = word; }
}
