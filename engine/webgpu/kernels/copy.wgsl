// copy: packed = raw_words, one word a thread. Dispatch: workgroups of 256 for all words.
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let i = (group.y * groups.x + group.x) * 256u + local;
  if i < arrayLength(&raw_words) {
    packed[i] = raw_words[i];
  }
}
