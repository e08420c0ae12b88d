// The state buffer: all that changes between tokens. Layout (u32):
//   [0] row count, [1] output count, [2] stop flag, [3 .. 16) and what follows: webgpu/state.h;
//   then STATE_MAX_ROWS x (token id, position, sequence, output index or 0xffffffff);
//   then STATE_MAX_ROWS output rows;  then page tables, (sequence, STATE_MAX_PAGES).
const STATE_ROWS = 16u;
const STATE_OUTPUT_ROWS = STATE_ROWS + 4u * STATE_MAX_ROWS;
const STATE_PAGES = STATE_OUTPUT_ROWS + STATE_MAX_ROWS;

fn token_count() -> u32 {
  return state[0];
}
fn output_count() -> u32 {
  return state[1];
}
fn is_stopped() -> bool {
  return state[2] != 0u;
}
fn row_token(row: u32) -> u32 {
  return state[STATE_ROWS + 4u * row];
}
fn row_position(row: u32) -> u32 {
  return state[STATE_ROWS + 4u * row + 1u];
}
fn row_sequence(row: u32) -> u32 {
  return state[STATE_ROWS + 4u * row + 2u];
}
fn output_row(index: u32) -> u32 {
  return state[STATE_OUTPUT_ROWS + index];
}
// In a run of prompts: where the rows of a sequence begin; of the next one past the last: the row count.
fn prompt_first_row(sequence: u32) -> u32 {
  return state[5u + sequence];
}
// The page that holds a position of a sequence; pages are of 256 tokens.
fn page_of(sequence: u32, position: u32) -> u32 {
  return state[STATE_PAGES + sequence * STATE_MAX_PAGES + position / 256u];
}
