// attention_parts: attention_decode splits a row's context in up to RANGES ranges, and leaves of each what it
// makes of it: the sum of V weighted by exp(score - largest score) (HEAD_DIM numbers), and in the stats that
// score and the sum of the weights. Who reads attention's result puts the ranges together.
// Layout: sums (PART_ROWS, RANGES, HEADS, HEAD_DIM), then stats (PART_ROWS, RANGES, HEADS, 2).
// Needs attention_range.wgsl.
const PART_STATS = PART_ROWS * RANGES * HEADS * HEAD_DIM;

struct Ranges {
  begin: u32,
  tokens: u32,  // of a range
  count: u32,
}
fn ranges_of(position: u32) -> Ranges {
  let begin = first_seen(position);
  let count = position + 1u - begin;
  let tokens = (count + RANGES * RANGE_STEP - 1u) / (RANGES * RANGE_STEP) * RANGE_STEP;
  return Ranges(begin, tokens, (count + tokens - 1u) / tokens);
}
fn part_at(row: u32, range: u32, head: u32) -> u32 {
  return ((row * RANGES + range) * HEADS + head) * HEAD_DIM;
}
fn stat_at(row: u32, range: u32, head: u32) -> u32 {
  return PART_STATS + ((row * RANGES + range) * HEADS + head) * 2u;
}
