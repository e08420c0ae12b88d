// Rows of Q, K and V in their own order, for rows_qkv.wgsl.
fn matrix_row(rows: RowSet, place: u32) -> u32 {
  return rows.begin + place;
}
