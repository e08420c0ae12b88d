// What a row's logits are worth to its reply: biases added, penalties taken off. llama.cpp's rules, as in
// session/sampler.cc. Logits are compared as keys: u32 in the order of the floats.
// Glue: reply_word(i), word i of the reply of this workgroup's row (webgpu/state.h, ReplyLayout).
const FLOAT_MAX = 3.40282346638528859812e+38;
const INFINITY_KEY = 0xff800000u;
const FORBIDDEN_KEY = 0x007fffffu;  // of -infinity

var<workgroup> window_ids: array<u32, REPLY_WINDOW>;  // that penalties count
var<workgroup> bias_ids: array<u32, REPLY_BIASES>;
var<workgroup> bias_bits: array<u32, REPLY_BIASES>;
var<workgroup> adjustment: vec4<u32>;  // ids of the window, biases
var<workgroup> penalties: vec3<f32>;   // repeat, presence, frequency

fn key_of(bits: u32) -> u32 {
  if (bits & 0x7fffffffu) > 0x7f800000u {
    return 0xffffffffu;  // NaN: the best of all, so that it is seen
  }
  if bits == 0x80000000u {
    return 0x80000000u;  // -0 equals 0
  }
  return select(bits | 0x80000000u, ~bits, bits >> 31u != 0u);
}
fn value_of(key: u32) -> f32 {
  return bitcast<f32>(select(~key, key & 0x7fffffffu, key >> 31u != 0u));
}

// Ends with a barrier.
fn load_adjustment(local: u32) {
  let window = reply_word(REPLY_PENALTY_COUNT);
  let bias_count = reply_word(REPLY_BIAS_COUNT);
  if local < REPLY_WINDOW {
    window_ids[local] = reply_word(REPLY_HISTORY + (reply_word(REPLY_HISTORY_END) - 1u - local) % REPLY_WINDOW);
  }
  if local < REPLY_BIASES {
    bias_ids[local] = reply_word(REPLY_BIAS + 2u * local);
    bias_bits[local] = reply_word(REPLY_BIAS + 2u * local + 1u);
  }
  if local == 0u {
    adjustment = vec4(min(window, reply_word(REPLY_HISTORY_END)), bias_count, 0u, 0u);
    penalties = vec3(bitcast<f32>(reply_word(REPLY_REPEAT)), bitcast<f32>(reply_word(REPLY_PRESENCE)),
                     bitcast<f32>(reply_word(REPLY_FREQUENCY)));
  }
  workgroupBarrier();
}

fn bounded(value: f32) -> f32 {
  return clamp(value, -FLOAT_MAX, FLOAT_MAX);
}

fn adjusted_key(id: u32, logit: f32) -> u32 {
  let key = key_of(bitcast<u32>(logit));
  if adjustment.x + adjustment.y == 0u || key >= INFINITY_KEY || key <= FORBIDDEN_KEY {
    return key;
  }
  var value = logit;
  for (var i = 0u; i < adjustment.y; i++) {
    if bias_ids[i] == id {
      if key_of(bias_bits[i]) <= FORBIDDEN_KEY {
        return FORBIDDEN_KEY;
      }
      value = bounded(value + bitcast<f32>(bias_bits[i]));
    }
  }
  var count = 0u;
  for (var i = 0u; i < adjustment.x; i++) {
    count += u32(window_ids[i] == id);
  }
  if count > 0u {
    value = bounded(select(value / penalties.x, value * penalties.x, value <= 0.0));
    value = bounded(value - bounded(f32(count) * penalties.z + penalties.y));
  }
  return key_of(bitcast<u32>(value));
}
