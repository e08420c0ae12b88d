// The rows of this run are those whose logits are wanted.
fn run_rows() -> u32 {
  return output_count();
}
