// What matvec*.wgsl do with their products: an epilogue, and out.
var<private> first_operand: f32;  // the epilogue's, of this invocation's first output

fn output_at(rows: RowSet, output: u32) -> u32 {
  return param(1u) + output % TOKENS * param(2u) + y_column(rows, rows.begin + output / TOKENS);
}
fn is_output(rows: RowSet, output: u32) -> bool {
  return output < OUTPUTS && rows.begin + output / TOKENS < rows.end && output % TOKENS < run_rows();
}

// Without a branch, so that nothing waits for it; where there is no output, of the last one that there is.
fn prefetch(rows: RowSet, local: u32) {
  let last = min(OUTPUTS / TOKENS, rows.end - min(rows.begin, rows.end)) * TOKENS;
  first_operand = epilogue_operand(output_at(rows, min(local, max(last, 1u) - 1u)));
}

fn finish(rows: RowSet, local: u32) {
  for (var output = local; output < OUTPUTS; output += WORKGROUP) {
    if is_output(rows, output) {
      let a = biased(rows, rows.begin + output / TOKENS, product_of(0u, output));
      let at = output_at(rows, output);
      var operand = first_operand;
      if output >= WORKGROUP {
        operand = epilogue_operand(at);
      }
      store_act(at, epilogue(operand, a, product_of(MATRICES - 1u, output)));
    }
  }
}
