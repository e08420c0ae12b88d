// Medians with their spread, and ratios of what was measured in turns.

export interface Summary {
  median: number;
  min: number;
  max: number;
  samples: number[];
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const half = sorted.length >> 1;
  const upper = sorted[half];
  if (upper === undefined) return NaN;
  if (sorted.length % 2 === 1) return upper;
  return ((sorted[half - 1] ?? upper) + upper) / 2;
}

export function summarize(samples: readonly number[]): Summary {
  return {
    median: median(samples),
    min: Math.min(...samples),
    max: Math.max(...samples),
    samples: [...samples],
  };
}

/**
 * Summary of a/b over the rounds in which both were measured: neighbours in time, so that what slows
 * the machine for a while slows both. Undefined when they share no round.
 */
export function pairedRatio(
  a: ReadonlyMap<number, number>,
  b: ReadonlyMap<number, number>,
): Summary | undefined {
  const ratios: number[] = [];
  for (const [round, value] of a) {
    const base = b.get(round);
    if (base !== undefined && base > 0) ratios.push(value / base);
  }
  return ratios.length > 0 ? summarize(ratios) : undefined;
}
