// From samples to the rows of the result: medians, and ratios to what a reader compares with.
import { describeSetup, setupKey, type Setup, type Unit } from './cases.js';
import type { BenchModel } from './bench_model.js';
import type { Series } from './rounds.js';
import { pairedRatio, summarize, type Summary } from './stats.js';

export interface Ratio extends Omit<Summary, 'samples'> {
  to: string;
}

export interface Row extends Setup, Summary {
  model: string;
  what: string;
  unit: Unit;
  /** Peers: mean KL in nats of their weights to the GGUF's. */
  mean_kl: number | null;
  ratios: Ratio[];
}

export const kReadBase = 'read';
export const kBestPrefix = 'best ';

/** Decoding in bytes of weights as well, which is compared with plain reading. */
function withBandwidth(series: readonly Series[], model: BenchModel): Series[] {
  const scale = model.weight_bytes_per_token / 1e9;
  return series.flatMap((one) => {
    const is_ours = one.setup.software === 'nonstop';
    if (!is_ours || one.unit !== 'tok/s' || !one.what.startsWith('decode-')) return [one];
    const values = new Map([...one.values].map(([round, value]) => [round, value * scale]));
    return [one, { ...one, unit: 'GB/s' as const, values }];
  });
}

export type Quality = (model: string, setup: Setup) => number | undefined;

export function makeRows(model: BenchModel, series: readonly Series[], quality: Quality): Row[] {
  const all = withBandwidth(series, model);
  return all.map((one) => ({
    model: model.name,
    what: one.what,
    unit: one.unit,
    ...one.setup,
    ...summarize([...one.values.values()]),
    mean_kl: one.unit === 'tok/s' ? (quality(model.name, one.setup) ?? null) : null,
    ratios: one.setup.software === 'nonstop' ? ratiosOf(one, all) : [],
  }));
}

function ratiosOf(one: Series, all: readonly Series[]): Ratio[] {
  return [...ownBases(one, all), ...peerBases(one, all)].flatMap(({ to, base }) => {
    const ratio = pairedRatio(one.values, base.values);
    if (!ratio) return [];
    const { median, min, max } = ratio;
    return [{ to, median, min, max }];
  });
}

/** What the others of their kind are compared with. */
const kFirstOfKind = [
  ['decode-', 'decode-0'],
  ['sequences-', 'sequences-1'],
] as const;

interface Base {
  to: string;
  base: Series;
}

/** Plain reading, no context, one sequence, the other build; for memory its bound. */
function ownBases(one: Series, all: readonly Series[]): Base[] {
  const find = (what: string, setup: Partial<Setup>): Series | undefined => {
    const wanted = { ...one.setup, ...setup };
    return all.find(
      (other) =>
        other !== one &&
        other.what === what &&
        other.unit === one.unit &&
        setupKey(other.setup) === setupKey(wanted),
    );
  };
  const bases: Base[] = [];
  const add = (to: string, base: Series | undefined) => {
    if (base) bases.push({ to, base });
  };
  if (one.unit === 'GB/s' && one.what !== kReadBase) {
    const own = { kernels: true, sequences: 1 };
    const builds = [one.setup.build, 'relaxed', 'simd'] as const;
    const found = builds.map((build) => find(kReadBase, { ...own, build })).find((base) => base);
    add(kReadBase, found);
  }
  if (one.unit === 'MB') {
    const bound = all.find(
      ({ unit, setup }) => unit === 'MB bound' && setupKey(setup) === setupKey(one.setup),
    );
    add('bound', bound);
  }
  if (one.unit !== 'tok/s' && one.unit !== 'ms') return bases;
  for (const [prefix, base] of kFirstOfKind) {
    if (one.what.startsWith(prefix)) add(base, find(base, {}));
  }
  if (one.setup.build === 'simd') add('relaxed', find(one.what, { build: 'relaxed' }));
  return bases;
}

/**
 * Each peer on as many threads, native llama.cpp on one too (a second one helps it little), and of each
 * program the fastest setting on at most as many. The build that is measured for comparison has none.
 */
function peerBases(one: Series, all: readonly Series[]): Base[] {
  const { threads, build } = one.setup;
  const alike = all.filter(
    ({ what, unit, setup }) =>
      what === one.what && unit === one.unit && setup.device === one.setup.device,
  );
  if (build === 'simd' && alike.some(({ setup }) => setup.build === 'relaxed')) return [];
  const peers = alike.filter(
    ({ setup }) => setup.software !== 'nonstop' && setup.threads <= threads,
  );
  const bases = peers
    .filter(({ setup }) => setup.threads === threads || setup.software === 'llama.cpp')
    .map((base) => ({ to: describeSetup(base.setup), base }));
  const speed = ({ values }: Series) => summarize([...values.values()]).median;
  for (const software of new Set(peers.map(({ setup }) => setup.software))) {
    const own = peers.filter(({ setup }) => setup.software === software);
    const [best] = own.sort((a, b) => speed(b) - speed(a));
    if (best) bases.push({ to: `${kBestPrefix}${software}`, base: best });
  }
  return bases;
}
