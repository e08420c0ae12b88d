// cos and sin of position * frequency: the angle as an f32 product, reduced by multiples of pi / 2
// (Cody & Waite), then the polynomials of Cephes; so its accuracy is not the driver's sin's, which
// WGSL leaves at 2^-11.
fn rotation(position: u32, frequency: f32) -> vec2<f32> {
  let angle = f32(position) * frequency;
  let quarter = round(angle * 0.63661977);
  // pi / 2 in three parts, of which the first two have few bits.
  let r = ((angle - quarter * 1.5703125) - quarter * 4.837512969970703e-4) -
          quarter * 7.549789948768648e-8;
  let z = r * r;
  let s = r + r * z * (-1.6666654611e-1 + z * (8.3321608736e-3 - z * 1.9515295891e-4));
  let c = 1.0 - 0.5 * z +
          z * z * (4.166664568298827e-2 + z * (-1.388731625493765e-3 + z * 2.443315711809948e-5));
  let turned = select(vec2<f32>(c, s), vec2<f32>(-s, c), (i32(quarter) & 1) == 1);
  return select(turned, -turned, (i32(quarter) & 2) == 2);
}
