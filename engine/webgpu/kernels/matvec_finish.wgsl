// What matvec.wgsl does with its products: an epilogue, and out.
fn finish(rows: RowSet, local: u32) {
  for (var output = local; output < OUTPUTS; output += WORKGROUP) {
    let row = rows.begin + output / TOKENS;
    let token = output % TOKENS;
    if row < rows.end && token < run_rows() {
      let a = biased(rows, row, product_of(0u, output));
      let b = product_of(MATRICES - 1u, output);
      let at = param(1u) + token * param(2u) + y_column(rows, row);
      store_act(at, epilogue(token, row, at, a, b));
    }
  }
}
