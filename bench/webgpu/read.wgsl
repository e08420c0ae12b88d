// read: reads all of `data` once and does next to nothing with it: what a kernel that did no arithmetic could
//       reach.
// Layout:   data (vectors); sums, one word for each workgroup.   Dispatch: any number of workgroups.
// Requires: whole vectors.   One pass a dispatch: workgroups that make several passes drift apart, and then read
// what others have just brought to the cache (7 TB/s of a memory that gives 4.8).
override workgroup_size: u32 = 256;

@group(0) @binding(0) var<storage, read> data: array<vec4u>;
@group(0) @binding(1) var<storage, read_write> sums: array<u32>;

@compute @workgroup_size(workgroup_size)
fn main(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32, @builtin(workgroup_id) group: vec3u) {
  let stride = groups.x * workgroup_size;
  let count = arrayLength(&data);
  var sum = vec4u();
  // Four loads under way at a time; the last ones one by one.
  var i = id.x;
  for (; i + 3u * stride < count; i += 4u * stride) {
    sum ^= data[i] ^ data[i + stride] ^ data[i + 2u * stride] ^ data[i + 3u * stride];
  }
  for (; i < count; i += stride) { sum ^= data[i]; }
  let word = sum.x ^ sum.y ^ sum.z ^ sum.w;
  // So that reading has a use for every lane; which of them is stored does not matter.
  if (word == 0x9e3779b9u || lane == 0u) { sums[group.x] = word; }
}
