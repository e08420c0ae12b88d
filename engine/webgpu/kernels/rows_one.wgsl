// Rows of one matrix, or of a gate with its up: set i is rows i * ROWS and on.
struct RowSet {
  matrix: u32,
  begin: u32,
  end: u32,  // of the matrix
}
fn row_set(i: u32) -> RowSet {
  return RowSet(0u, i * ROWS, param(8u));
}
fn matrix_row(rows: RowSet, place: u32) -> u32 {
  return rows.begin + place;
}
// The column of y that a row of a matrix goes to.
fn y_column(rows: RowSet, row: u32) -> u32 {
  return param(7u) + row;
}
fn biased(rows: RowSet, row: u32, value: f32) -> f32 {
  return value;
}
