// What matvec.wgsl does with Q, K and V: bias, RoPE of Q and K, q to y, K and V to the cache.
// A unit of four rows holds two whole RoPE pairs and two whole pairs of the cache. Where pairs are
// halves apart (ROPE_HALVES), rows 2 u, 2 u + 1 of a head go with those half the rotated part away.
// Requires: HEAD_DIM % 4 == 0, ROTATED % 4 == 0, ROWS % 4 == 0.
// Cache:    pages (page, layer of the group, K|V, head, 256 tokens, HEAD_DIM), f16 pairs or f32.
const HALF = ROTATED / 2u;
const CACHE_ROW_WORDS = select(HEAD_DIM / 2u, HEAD_DIM, KV_F32 != 0u);

// Of this invocation's first unit: what it needs beside the products.
struct UnitPlace {
  head: u32,
  dim: u32,
  page: u32,  // where the token's page begins in the cache
  position: u32,
  rotations: vec4<f32>,
}
var<private> first_place: UnitPlace;

fn is_unit(rows: RowSet, unit: u32, token: u32) -> bool {
  return unit < OUTPUTS / 4u / TOKENS && rows.begin + 4u * unit < rows.end && token < run_rows();
}
fn place_of(rows: RowSet, unit: u32, token: u32) -> UnitPlace {
  let row = rows.begin + 4u * unit;
  let dim = row % HEAD_DIM;
  let position = row_position(token);
  let frequency = param(12u) + min(dim, max(ROTATED, 4u) - 4u);
  let rotations = vec4(rotation(position, frequency), rotation(position, frequency + 2u));
  let page = page_of(row_sequence(token), position) * param(14u);
  return UnitPlace(row / HEAD_DIM, dim, page, position, rotations * ROPE_MAGNITUDE);
}
// Without a branch, so that nothing waits for it; where there is no unit, of one that there is.
fn prefetch(rows: RowSet, local: u32) {
  let unit = min(local / TOKENS, OUTPUTS / 4u / TOKENS - 1u);
  first_place = place_of(rows, select(0u, unit, is_unit(rows, unit, 0u)), local % TOKENS);
}

fn is_parted(rows: RowSet, dim: u32) -> bool {
  return ROPE_HALVES != 0u && rows.matrix != 2u && dim < ROTATED;
}
fn matrix_row(rows: RowSet, place: u32) -> u32 {
  let row = rows.begin + place;
  let dim = row % HEAD_DIM;
  if !is_parted(rows, dim) {
    return row;
  }
  return row - dim + dim / 4u * 2u + dim % 2u + select(0u, HALF, dim % 4u >= 2u);
}

fn rotated(v: vec4<f32>, rotations: vec4<f32>) -> vec4<f32> {
  let a = rotations.xy;
  let b = rotations.zw;
  if ROPE_HALVES != 0u {
    return vec4<f32>(v.x * a.x - v.z * a.y, v.y * b.x - v.w * b.y,
                     v.x * a.y + v.z * a.x, v.y * b.y + v.w * b.x);
  }
  return vec4<f32>(v.x * a.x - v.y * a.y, v.x * a.y + v.y * a.x,
                   v.z * b.x - v.w * b.y, v.z * b.y + v.w * b.x);
}

fn store_pair(rows: RowSet, token: u32, place: UnitPlace, dim: u32, pair: vec2<f32>) {
  if rows.matrix == 0u {
    let at = param(1u) + token * param(2u) + place.head * HEAD_DIM + dim;
    store_act(at, pair.x);
    store_act(at + 1u, pair.y);
    return;
  }
  let plane = select(0u, KV_ROWS / HEAD_DIM, rows.matrix == 2u) + place.head;
  let at = place.page + param(13u) + (plane * 256u + place.position % 256u) * CACHE_ROW_WORDS;
  if KV_F32 != 0u {
    cache[at + dim] = bitcast<u32>(pair.x);
    cache[at + dim + 1u] = bitcast<u32>(pair.y);
  } else {
    cache[at + dim / 2u] = pack2x16float(pair);
  }
}

fn finish_unit(rows: RowSet, unit: u32, token: u32) {
  if !is_unit(rows, unit, token) {
    return;
  }
  var place = first_place;
  if unit * TOKENS + token >= WORKGROUP {
    place = place_of(rows, unit, token);
  }
  let dim = place.dim;
  var v = vec4<f32>();
  for (var i = 0u; i < 4u; i++) {
    let row = matrix_row(rows, 4u * unit + i);
    v[i] = biased(rows, row, product_of(0u, (4u * unit + i) * TOKENS + token));
  }
  if rows.matrix != 2u && dim < ROTATED {
    v = rotated(v, place.rotations);
  }
  if is_parted(rows, dim) {
    store_pair(rows, token, place, dim / 2u, v.xy);
    store_pair(rows, token, place, dim / 2u + HALF, v.zw);
  } else {
    store_pair(rows, token, place, dim, v.xy);
    store_pair(rows, token, place, dim + 2u, v.zw);
  }
}

fn finish(rows: RowSet, local: u32) {
  for (var i = local; i < OUTPUTS / 4u; i += WORKGROUP) {
    finish_unit(rows, i / TOKENS, i % TOKENS);
  }
}
