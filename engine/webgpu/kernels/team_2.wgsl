// team_2: values of a team of 2 rows of resident.wgsl, a component for each.
const TEAM_ROWS = 2u;
alias TeamF32 = vec2<f32>;
alias TeamU32 = vec2<u32>;

// What rows that lie so far from each other add to a place.
fn rows_apart(words: u32) -> TeamU32 {
  return words * min(vec2(0u, 1u), TeamU32(row_count - 1u));
}
fn component(value: TeamF32) -> f32 {
  return value.x;
}
fn largest(value: TeamU32) -> u32 {
  return max(value.x, value.y);
}
fn are_there(bits: TeamU32) -> bool {
  return all(bits != TeamU32());
}
fn look_rows(at: TeamU32) -> TeamU32 {
  return vec2(look(at.x), look(at.y));
}
fn put_rows(at: TeamU32, value: TeamF32) {
  put(at.x, value.x);
  put(at.y, value.y);
}
// As `look` would give it.
fn load_x(at: TeamU32) -> TeamU32 {
  let bits = bitcast<TeamU32>(vec2(load_out(at.x), load_out(at.y)));
  return select(bits, TeamU32(0x80000000u), bits == TeamU32());
}
fn store_x(at: TeamU32, value: TeamF32) {
  store_act(at.x, value.x);
  store_act(at.y, value.y);
}
fn epilogue_rows(a: TeamF32, b: TeamF32) -> TeamF32 {
  return vec2(epilogue(0.0, a.x, b.x), epilogue(0.0, a.y, b.y));
}
fn ranges_of_rows() -> TeamU32 {
  let row = first_row + rows_apart(1u);
  return vec2(ranges_of(row_position(row.x)).count, ranges_of(row_position(row.y)).count);
}
