// How every peer's decoding is counted: tokens after the first, from the first that is seen to the last.

export function decodeRate(times_ms: readonly number[]): number {
  const [first = NaN] = times_ms;
  const last = times_ms.at(-1) ?? NaN;
  return (times_ms.length - 1) / ((last - first) / 1000);
}
