// half: a number as f16, with ties to even, as on the CPU: pack2x16float may round either way, and
// past the largest number it may give anything.
fn to_half(value: f32) -> u32 {
  let bits = bitcast<u32>(value);
  let sign = (bits >> 16u) & 0x8000u;
  let magnitude = bits & 0x7fffffffu;
  if magnitude >= 0x477ff000u {  // rounds to more than 65504: infinity, or NaN
    return sign | select(0x7c00u, 0x7e00u, magnitude > 0x7f800000u);
  }
  var kept = magnitude - 0x38000000u;  // the exponent's bias: from 127 to 15
  var dropped_bits = 13u;
  if magnitude < 0x38800000u {  // below the least normal number: units of 2^-24
    let exponent = magnitude >> 23u;
    if exponent < 102u {
      return sign;
    }
    kept = (magnitude & 0x7fffffu) | 0x800000u;
    dropped_bits = 126u - exponent;
  }
  let almost_half = (1u << (dropped_bits - 1u)) - 1u;
  return sign | ((kept + almost_half + ((kept >> dropped_bits) & 1u)) >> dropped_bits);
}
fn to_halves(a: f32, b: f32) -> u32 {
  return to_half(a) | (to_half(b) << 16u);
}
