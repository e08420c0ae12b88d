// attention_rope: the queries of attention_decode where it takes rope_kv's part too: it reads the rows of
// head_rows.wgsl, and who has the newest token writes its k and v to the cache, then reads them there.
// Requires: each row is of its own sequence; TILES == 1; HEAD_DIM % 8 == 0.
var<workgroup> squares: array<f32, (TILE_HEADS + 1u) * 32u>;

// Of q's heads, then of k: 32 lanes add up the squares of each.
fn prepare(unit: Unit, is_newest: bool, local: u32) {
  if HAS_HEAD_NORMS != 0u {
    let head = local / 32u;
    if head <= TILE_HEADS {
      let x = select(head_at(unit.row, unit.first_head + head),
                     head_at(unit.row, HEADS + unit.kv_head), head == TILE_HEADS);
      var sum = 0.0;
      if head == TILE_HEADS || head < unit.head_count {
        for (var i = local % 32u; i < HEAD_DIM; i += 32u) {
          let value = load_act(x + i);
          sum += value * value;
        }
      }
      squares[local] = sum;
    }
    workgroupBarrier();
  }
  if is_newest {
    write_newest(unit, local);
  }
}

fn factor_of(head: u32) -> f32 {
  if HAS_HEAD_NORMS == 0u {
    return 1.0;
  }
  var total = 0.0;
  for (var i = 0u; i < 32u; i++) {
    total += squares[head * 32u + i];
  }
  return norm_factor_of(total);
}

fn query_at(unit: Unit, head: u32, i: u32) -> f32 {
  let x = head_at(unit.row, unit.first_head + head);
  return turned(x, param(5u), factor_of(head), row_position(unit.row), i);
}

// Eight values a thread, so that whole vectors are written.
fn write_newest(unit: Unit, local: u32) {
  let position = row_position(unit.row);
  for (var i = local; i < 2u * CHUNKS; i += 256u) {
    let is_value = i / CHUNKS;
    let column = i % CHUNKS * 8u;
    let x = head_at(unit.row, HEADS + is_value * KV_HEADS + unit.kv_head);
    let factor = factor_of(TILE_HEADS);
    var values: array<f32, 8>;
    for (var j = 0u; j < 8u; j++) {
      if is_value == 1u {
        values[j] = load_act(x + column + j);
      } else {
        values[j] = turned(x, param(6u), factor, position, column + j);
      }
    }
    store_kv8(row_of(unit, is_value, position), i % CHUNKS, values);
  }
  storageBarrier();
}
