// The rows of this run are its tokens.
fn run_rows() -> u32 {
  return token_count();
}
