// team_1: values of a team of 1 row of resident.wgsl, a component for each.
const TEAM_ROWS = 1u;
alias TeamF32 = f32;
alias TeamU32 = u32;

// What rows that lie so far from each other add to a place.
fn rows_apart(words: u32) -> TeamU32 {
  return 0u;
}
fn component(value: TeamF32) -> f32 {
  return value;
}
fn largest(value: TeamU32) -> u32 {
  return value;
}
fn are_there(bits: TeamU32) -> bool {
  return bits != 0u;
}
fn look_rows(at: TeamU32) -> TeamU32 {
  return look(at);
}
fn put_rows(at: TeamU32, value: TeamF32) {
  put(at, value);
}
// As `look` would give it.
fn load_x(at: TeamU32) -> TeamU32 {
  let bits = bitcast<TeamU32>(load_out(at));
  return select(bits, TeamU32(0x80000000u), bits == TeamU32());
}
fn store_x(at: TeamU32, value: TeamF32) {
  store_act(at, value);
}
fn epilogue_rows(a: TeamF32, b: TeamF32) -> TeamF32 {
  return epilogue(0.0, a, b);
}
fn ranges_of_rows() -> TeamU32 {
  let row = first_row + rows_apart(1u);
  return ranges_of(row_position(row)).count;
}
