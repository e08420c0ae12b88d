// rows_map: the plain elementwise ops, y[r, i] = OP(a[r, i], b), one element a thread.
// Layout: a, y (rows, WIDTH) row-major; b by OPERAND: the same shape, a vector, one of a group's.
// Dispatch: workgroups of 256 for all elements. a or b may be y. Glue: load_a, load_b, run_rows.
// params: a, b, y, number (eps, scale or cap).
const ADD = 0u;
const MUL = 1u;
const SCALE_BY = 2u;
const SILU = 3u;
const GELU = 4u;
const CAP = 5u;
const SQUARE = 6u;
const ADD_NUMBER = 7u;
const RSQRT = 8u;

// What b is: nothing, (rows, WIDTH), a vector of GROUP elements, (rows, WIDTH / GROUP).
const SAME_SHAPE = 1u;
const VECTOR = 2u;
const GROUP_WISE = 3u;

// x / (1 + exp(-y)), for any y.
fn times_sigmoid(x: f32, y: f32) -> f32 {
  return x / (1.0 + exp(min(-y, 80.0)));
}

fn apply(a: f32, b: f32) -> f32 {
  switch OP {
    case ADD { return a + b; }
    case MUL { return a * b; }
    case SCALE_BY { return a * param_f32(3u); }
    case SILU { return times_sigmoid(a, a); }
    // 0.5 x (1 + tanh(u)) = x / (1 + exp(-2u)), u = sqrt(2 / pi) (x + 0.044715 x^3).
    case GELU { return times_sigmoid(a, 1.5957691216057308 * a * (1.0 + 0.044715 * a * a)); }
    case CAP {
      let e = exp(-2.0 * min(abs(a) / param_f32(3u), 40.0));
      return sign(a) * param_f32(3u) * (1.0 - e) / (1.0 + e);
    }
    case SQUARE { return a * a; }
    case ADD_NUMBER { return a + param_f32(3u); }
    case RSQRT { return 1.0 / sqrt(a); }
    default { return 0.0; }
  }
}

fn operand(i: u32) -> f32 {
  switch OPERAND {
    case SAME_SHAPE { return load_b(param(1u) + i); }
    case VECTOR { return load_b(param(1u) + i % WIDTH % GROUP); }
    case GROUP_WISE { return load_b(param(1u) + i / GROUP); }
    default { return 0.0; }
  }
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let i = (group.y * groups.x + group.x) * 256u + local;
  if i < run_rows() * WIDTH {
    store_act(param(2u) + i, apply(load_a(param(0u) + i), operand(i)));
  }
}
