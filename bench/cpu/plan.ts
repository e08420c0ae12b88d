// Which cases are measured on which subjects, for one model. A measurement's subjects take turns:
// A, B, C, A, B, C, …
import { EngineError } from '../../web/src/api/index.js';
import type { Case, KernelCase, Setup } from './cases.js';
import { typeName } from './gguf.js';
import type { BenchModel } from './models.js';

export interface Measurement {
  what: string;
  one: Case;
  setups: Setup[];
}

export interface PlanOptions {
  quick: boolean;
  peers: boolean;
  hosts: readonly ('node' | 'chromium')[];
  threads: readonly number[];
  builds: readonly ('relaxed' | 'simd')[];
  /** Names or beginnings of names; empty: all. */
  only: readonly string[];
}

export const kDecodeTokens = 64;
export const kMostSequences = 8;
/** Beyond what a case needs: its own tokens. */
const kContextMargin = kDecodeTokens + 2;
const kLongestContext = 2048;
const kLeastBufferBytes = 96 * 2 ** 20;
/** Prompt rows of the kernels' many-token case; their weights may lie in a cache, as in a prefill. */
const kPromptRows = 64;
const kPromptBufferBytes = 8 * 2 ** 20;
/** A tile of a prompt (AttentionTileTokens of engine/cpu/step.h, three heads to a KV head). */
const kAttentionTokens = 16;
const kNoWeights = '';

export function contextOf(model: BenchModel): number {
  return Math.min(model.attention.context_length, kLongestContext + kContextMargin);
}

/** Everything that is measured of `model`, in order; cases that its context cannot hold are left out. */
export function planModel(model: BenchModel, options: PlanOptions): Measurement[] {
  const ours = ourSetups(options);
  const all = [
    ...kernelMeasurements(model, options, ours),
    ...replyMeasurements(model, options, ours),
  ];
  return all.filter(
    ({ what, one, setups }) =>
      setups.length > 0 && fits(one, contextOf(model)) && isWanted(what, options.only),
  );
}

function fits(one: Case, context: number): boolean {
  switch (one.kind) {
    case 'decode':
      return one.context + one.tokens + 1 < context;
    case 'prefill':
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

function ourSetups({ hosts, threads, builds }: PlanOptions): Setup[] {
  return hosts.flatMap((host) =>
    threads.flatMap((thread_count) =>
      builds.map((build): Setup => ({
        software: 'nonstop',
        host,
        threads: thread_count,
        build,
        weights: kNoWeights,
        sequences: 1,
        kernels: false,
      })),
    ),
  );
}

/** The build that is chosen by itself; the other one is measured for comparison, in fewer cases. */
function mainBuild(setups: readonly Setup[]): Setup[] {
  const best = setups.some(({ build }) => build === 'relaxed') ? 'relaxed' : 'simd';
  return setups.filter(({ build }) => build === best);
}

function kernelMeasurements(
  model: BenchModel,
  { quick }: PlanOptions,
  ours: readonly Setup[],
): Measurement[] {
  const setups = mainBuild(ours).map((setup) => ({ ...setup, kernels: true }));
  const seconds = quick ? 0.1 : 0.25;
  const buffer_bytes = Math.max(kLeastBufferBytes, model.size_bytes);
  const list: [string, KernelCase][] = [['read', { kind: 'read', buffer_bytes, seconds }]];
  if (model.extent === 'whole') {
    for (const { type_id, rows, columns } of model.shapes) {
      const name = `kernel-${typeName(type_id).toLowerCase()}`;
      const shape = { kind: 'matmul' as const, type_id, rows, columns, seconds };
      list.push([name, { ...shape, tokens: 1, buffer_bytes }]);
      const many = { tokens: kPromptRows, buffer_bytes: kPromptBufferBytes };
      list.push([`${name}-x${kPromptRows}`, { ...shape, ...many }]);
    }
    const { layers, query_heads, kv_heads, head_dim } = model.attention;
    const sizes = { layers, query_heads, kv_heads, head_dim, context: kLongestContext };
    const name = `kernel-attention-${kLongestContext}`;
    list.push([name, { kind: 'attention', ...sizes, tokens: 1, seconds }]);
    const tokens = kAttentionTokens;
    list.push([`${name}-x${tokens}`, { kind: 'attention', ...sizes, tokens, seconds }]);
  }
  return list.map(([what, one]) => ({ what, one, setups }));
}

const kDecodeContexts = { quick: [0, 2048], whole: [0, 512, 2048] };
const kPrompts = { quick: [32, 64, 430], whole: [32, 64, 430, 2000] };
const kSequences = { quick: [1, 8], whole: [1, 2, 4, 8] };
/** So many repeats that a sample takes a good part of a second. */
const kRepeatTokens = 200;

function replyMeasurements(
  model: BenchModel,
  options: PlanOptions,
  ours: readonly Setup[],
): Measurement[] {
  const extent = options.quick ? 'quick' : 'whole';
  const main = mainBuild(ours);
  const list: Measurement[] = [];
  for (const context of model.extent === 'short' ? [0] : kDecodeContexts[extent]) {
    const one: Case = { kind: 'decode', context, tokens: kDecodeTokens };
    const setups = context === 0 ? [...ours, ...peerSetups(model, options, 'decode')] : main;
    list.push({ what: `decode-${context}`, one, setups });
  }
  for (const tokens of model.extent === 'short' ? [430] : kPrompts[extent]) {
    const one: Case = { kind: 'prefill', tokens, repeats: Math.ceil(kRepeatTokens / tokens) };
    const setups = [
      ...(tokens === 430 ? ours : main),
      ...peerSetups(model, options, `prefill-${tokens}`),
    ];
    list.push({ what: `prefill-${tokens}`, one, setups });
  }
  if (model.extent === 'short') return list;
  const together = main.map((setup) => ({ ...setup, sequences: kMostSequences }));
  for (const count of kSequences[extent]) {
    const one: Case = { kind: 'sequences', count, tokens: kDecodeTokens };
    list.push({ what: `sequences-${count}`, one, setups: together });
  }
  list.push({ what: 'facts', one: { kind: 'facts' }, setups: main });
  return list;
}

/** The peers' settings and the cases that each is measured in. */
interface PeerRow {
  software: Setup['software'];
  host: Setup['host'];
  weights: string;
  cases: readonly string[];
  /** Of a model that has only its own file. */
  in_same_file: boolean;
  /** Left out when it must be quick: a prompt of 430 tokens takes wllama up to a minute. */
  slow_cases: readonly string[];
}

export const kSameFile = 'same file';
const kLlama = { cases: ['decode', 'prefill-430'], slow_cases: [] };
const kOnnx = { cases: ['decode', 'prefill-64'], slow_cases: [], in_same_file: false };
const kWllama = { software: 'wllama', host: 'chromium', ...kLlama } as const;
const kTransformers = { software: 'transformers.js', host: 'chromium', ...kOnnx } as const;
export const kPeers: readonly PeerRow[] = [
  { ...kWllama, weights: kSameFile, in_same_file: true },
  { ...kWllama, weights: 'Q8_0', in_same_file: false },
  { ...kWllama, weights: 'Q4_0', in_same_file: false, slow_cases: ['prefill-430'] },
  { ...kTransformers, weights: 'q8' },
  { ...kTransformers, weights: 'fp32' },
  { software: 'llama.cpp', host: 'native', ...kLlama, weights: kSameFile, in_same_file: true },
];

function peerSetups(model: BenchModel, options: PlanOptions, one: string): Setup[] {
  if (!options.peers || model.peers === 'none') return [];
  return kPeers
    .filter((peer) => peer.cases.includes(one) && (model.peers === 'all' || peer.in_same_file))
    .filter((peer) => !(options.quick && peer.slow_cases.includes(one)))
    .flatMap(({ software, host, weights }) =>
      options.threads.map((threads): Setup => ({
        ...{ software, host, threads, weights },
        ...{ build: 'default', sequences: 1, kernels: false },
      })),
    );
}
