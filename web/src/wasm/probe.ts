// What this WebAssembly engine can do, asked and not guessed: validation of tiny modules for the
// features, and for relaxed SIMD a computation with known answers. V8 11.3 (Node 20 with a flag)
// validates the relaxed dot product and computes it wrongly in its first tier, so the sums are taken
// from a module compiled just now, which has not been optimised yet.

/** Numbers to bytes; LEB128 values here are all below 128. */
const bytes = (...values: number[]) => new Uint8Array(values);
const kHeader = [0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00];

// (module (func (param i32) (result i32) local.get 0 i8x16.splat i8x16.extract_lane_u 0))
const kSimdModule = bytes(
  ...kHeader,
  ...[0x01, 0x06, 0x01, 0x60, 0x01, 0x7f, 0x01, 0x7f],
  ...[0x03, 0x02, 0x01, 0x00],
  ...[0x0a, 0x0b, 0x01, 0x09, 0x00, 0x20, 0x00, 0xfd, 0x0f, 0xfd, 0x16, 0x00, 0x0b],
);

// (module (memory 1 1 shared) (func i32.const 0 i32.const 1 memory.atomic.notify drop))
const kThreadModule = bytes(
  ...kHeader,
  ...[0x01, 0x04, 0x01, 0x60, 0x00, 0x00],
  ...[0x03, 0x02, 0x01, 0x00],
  ...[0x05, 0x04, 0x01, 0x03, 0x01, 0x01],
  ...[0x0a, 0x0d, 0x01, 0x0b, 0x00, 0x41, 0x00, 0x41, 0x01, 0xfe, 0x00, 0x02, 0x00, 0x1a, 0x0b],
);

// dot(a, b, c): lane 0 of i32x4.relaxed_dot_i8x16_i7x16_add_s(splat a, splat b, splat c).
// twice(a, b, c): the same sum fed in again as the third operand.
const kDot = [0xfd, 0x93, 0x02];
const kLane0 = [0xfd, 0x1b, 0x00];
const kSplatA = [0x20, 0x00, 0xfd, 0x0f];
const kSplatB = [0x20, 0x01, 0xfd, 0x0f];
const kSplatC = [0x20, 0x02, 0xfd, 0x11];
const kDotBody = [0x00, ...kSplatA, ...kSplatB, ...kSplatC, ...kDot, ...kLane0, 0x0b];
const kTwiceBody = [
  ...[0x00, ...kSplatA, ...kSplatB, ...kSplatA, ...kSplatB, ...kSplatC, ...kDot],
  ...[...kDot, ...kLane0, 0x0b],
];
const kCode = [0x02, kDotBody.length, ...kDotBody, kTwiceBody.length, ...kTwiceBody];
const kRelaxedModule = bytes(
  ...kHeader,
  ...[0x01, 0x08, 0x01, 0x60, 0x03, 0x7f, 0x7f, 0x7f, 0x01, 0x7f],
  ...[0x03, 0x03, 0x02, 0x00, 0x00],
  ...[0x07, 0x0f, 0x02, 0x03, ...[0x64, 0x6f, 0x74], 0x00, 0x00],
  ...[0x05, ...[0x74, 0x77, 0x69, 0x63, 0x65], 0x00, 0x01],
  ...[0x0a, kCode.length, ...kCode],
);

type DotFunction = (a: number, b: number, c: number) => number;

/** Known answers: the second operand stays within 0..127, as in the engine's kernels. */
const kCases = [
  [1, 1, 0],
  [1, 1, 1],
  [-1, 1, 7],
  [127, 127, 0],
  [-128, 127, 0],
  [-128, 127, 100000],
  [-128, 15, -5],
  [127, 0, -9],
] as const;

export interface Capabilities {
  simd: boolean;
  relaxed: boolean;
  /** Undefined when the relaxed dot product is exact, else what it answered. */
  relaxed_fault: string | undefined;
  threads: boolean;
}

/** Compiles the probe anew and compares each answer with exact arithmetic. */
export function relaxedDotFault(): string | undefined {
  const { exports } = new WebAssembly.Instance(new WebAssembly.Module(kRelaxedModule));
  const dot = exports['dot'] as DotFunction;
  const twice = exports['twice'] as DotFunction;
  for (const [a, b, c] of kCases) {
    const once = 4 * a * b + c;
    const answers: [string, number, number][] = [
      ['dot', dot(a, b, c), once],
      ['dot of a dot', twice(a, b, c), once + 4 * a * b],
    ];
    for (const [what, got, want] of answers) {
      if (got !== want) return `${what} of (${a}, ${b}, ${c}) gave ${got} instead of ${want}`;
    }
  }
  return undefined;
}

export function probeCapabilities(): Capabilities {
  const relaxed = WebAssembly.validate(kRelaxedModule);
  return {
    simd: WebAssembly.validate(kSimdModule),
    relaxed,
    relaxed_fault: relaxed ? relaxedDotFault() : undefined,
    threads: WebAssembly.validate(kThreadModule),
  };
}
