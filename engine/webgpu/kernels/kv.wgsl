// kv: where a row of the cache lies. A row is K or V of one token and head: HEAD_DIM values, padded
// to KV_STRIDE (a multiple of 8); pairs of f16 in a u32, or f32 if KV_F32.
// Layout: (page, layer of the group, K | V, kv_head, token of the page, KV_STRIDE).
// params 14, 15: where the layer begins in a page, and a page's size, in words.
const KV_WORDS = select(KV_STRIDE / 2u, KV_STRIDE, KV_F32 != 0u);

// In words.
fn kv_row(page: u32, is_value: u32, kv_head: u32, position: u32) -> u32 {
  return page * param(15u) + param(14u) +
    ((is_value * KV_HEADS + kv_head) * 256u + position % 256u) * KV_WORDS;
}
