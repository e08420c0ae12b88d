// Rows of Q, K and V, one matrix after another; a set has rows of one.
struct RowSet {
  matrix: u32,
  begin: u32,
  end: u32,  // of the matrix
}
const Q_SETS = (Q_ROWS + ROWS - 1u) / ROWS;
const K_SETS = (KV_ROWS + ROWS - 1u) / ROWS;
fn row_set(i: u32) -> RowSet {
  if i < Q_SETS {
    return RowSet(0u, i * ROWS, Q_ROWS);
  }
  if i < Q_SETS + K_SETS {
    return RowSet(1u, (i - Q_SETS) * ROWS, KV_ROWS);
  }
  return RowSet(2u, (i - Q_SETS - K_SETS) * ROWS, KV_ROWS);
}
fn y_column(rows: RowSet, row: u32) -> u32 {
  return row + select(select(0u, Q_ROWS, rows.matrix == 1u), Q_ROWS + KV_ROWS, rows.matrix == 2u);
}
fn biased(rows: RowSet, row: u32, value: f32) -> f32 {
  if (BIASES & (1u << rows.matrix)) == 0u {
    return value;
  }
  return value + load_vector(param(9u + rows.matrix) + row);
}
