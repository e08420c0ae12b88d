// Columns 4 c .. 4 c + 3 of a row of x, which attention has left in parts (attention_parts.wgsl).
// HEAD_DIM % 4 == 0.
fn load_stat(row: u32, range: u32, head: u32) -> vec2<f32> {
  let at = stat_at(row, range, head);
  let both = load_act4(at / 4u);
  return select(both.xy, both.zw, at % 4u != 0u);
}
fn load_x4(token: u32, c: u32) -> vec4<f32> {
  if c >= COLUMNS / 4u {
    return vec4<f32>();
  }
  let head = 4u * c / HEAD_DIM;
  let count = ranges_of(row_position(token)).count;
  var most = LEAST;
  for (var range = 0u; range < count; range++) {
    most = max(most, load_stat(token, range, head).x);
  }
  var sum = vec4<f32>();
  var weight = 0.0;
  for (var range = 0u; range < count; range++) {
    let stat = load_stat(token, range, head);
    let factor = weight_of(stat.x - most);
    sum += factor * load_act4((part_at(token, range, head) + 4u * c % HEAD_DIM) / 4u);
    weight += factor * stat.y;
  }
  return sum / weight;
}
