// embed: y[t] = table[token id of t] * SCALE.
// Layout:   y (tokens, COLUMNS); the table lies in up to three windows, cut by rows.
// Params:   0 y; 1..3 base vec4 of each window's part; 4..6 first row of each part (ascending, of a
//           part that is not bound: where the last one ends); 7 end of the last part.
// Dispatch: (blocks of 32 columns of all tokens / 64) workgroups. Other parts' tokens are left alone.
fn embed_block(token: u32, block: u32) {
  let row = row_token(token);
  if row < param(4u) || row >= param(7u) {
    return;
  }
  let part = select(select(0u, 1u, row >= param(5u)), 2u, row >= param(6u));
  let values = load_table(part, param(1u + part), row - param(4u + part), block);
  for (var i = 0u; i < 32u; i++) {
    let column = block * 32u + i;
    if column < COLUMNS {
      let value = values.w[i / 4u][i % 4u] * values.scale[i / 16u];
      store_act(param(0u) + token * COLUMNS + column, value * SCALE);
    }
  }
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let token = id.x / BLOCKS;
  if is_stopped() || token >= token_count() {
    return;
  }
  embed_block(token, id.x % BLOCKS);
}
