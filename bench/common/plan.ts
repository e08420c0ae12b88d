// A plan: which cases are measured on which subjects, for one model. What each benchmark plans is in its
// own plan.ts. A measurement's subjects take turns: A, B, C, A, B, C, …
import { EngineError } from '../../web/src/api/index.js';
import type { BenchModel } from './bench_model.js';
import { kSameFile, type Case, type Setup } from './cases.js';

export interface Measurement {
  what: string;
  one: Case;
  setups: Setup[];
}

export interface PlanOptions {
  quick: boolean;
  peers: boolean;
  hosts: readonly ('node' | 'chromium')[];
  /** Names or beginnings of names; empty: all. */
  only: readonly string[];
}

const kLongestContext = 2048;

/** Of the engines and the peers: what the longest case needs, with `token_count` tokens decoded. */
export function contextFor({ attention }: BenchModel, token_count: number): number {
  return Math.min(attention.context_length, kLongestContext + token_count + 2);
}

/** Without cases that the context cannot hold, those that are not wanted, and those without a subject. */
export function select(
  measurements: readonly Measurement[],
  context: number,
  only: readonly string[],
): Measurement[] {
  return measurements.filter(
    ({ what, one, setups }) => setups.length > 0 && fits(one, context) && isWanted(what, only),
  );
}

function fits(one: Case, context: number): boolean {
  switch (one.kind) {
    case 'decode':
      return one.context + one.tokens + 1 < context;
    case 'prefill':
    case 'first-token':
      return one.tokens + 1 < context;
    case 'attention':
      return one.context <= context;
    default:
      return true;
  }
}

function isWanted(what: string, only: readonly string[]): boolean {
  return only.length === 0 || only.some((name) => what === name || what.startsWith(`${name}-`));
}

/** Names that choose nothing are refused. */
export function checkNames(only: readonly string[], measurements: readonly Measurement[]): void {
  for (const name of only) {
    if (measurements.some(({ what }) => isWanted(what, [name]))) continue;
    throw new EngineError(
      'invalid_argument',
      `The option "--only" is a list of measurements; (${name}) is none of those that are there.`,
    );
  }
}

/** A peer's setting and the cases that it is measured in. */
export interface PeerRow {
  software: Setup['software'];
  host: Setup['host'];
  weights: string;
  cases: readonly string[];
  /** Left out when it must be quick. */
  slow_cases: readonly string[];
}

/** Those of `rows` that join the case, each once for every device and number of threads. */
export function peerSetups(
  rows: readonly PeerRow[],
  model: BenchModel,
  { peers, quick }: PlanOptions,
  one: string,
  places: readonly Pick<Setup, 'device' | 'threads'>[],
): Setup[] {
  if (!peers || model.peers === 'none') return [];
  return rows
    .filter((row) => row.cases.includes(one) && !(quick && row.slow_cases.includes(one)))
    .filter(({ weights }) => model.peers === 'all' || weights === kSameFile)
    .flatMap(({ software, host, weights }) =>
      places.map((place): Setup => ({
        ...{ software, host, ...place, weights },
        ...{ build: 'default', sequences: 1, kernels: false },
      })),
    );
}
