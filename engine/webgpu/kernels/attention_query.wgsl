// attention_query: the queries of attention_decode as they are: (rows, HEADS, HEAD_DIM), rotated.
// params: 0 q.
fn prepare(unit: Unit, is_newest: bool, local: u32) {}

fn query_at(unit: Unit, head: u32, i: u32) -> f32 {
  return load_act(param(0u) + (unit.row * HEADS + unit.first_head + head) * HEAD_DIM + i);
}
