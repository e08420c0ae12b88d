// What ./run bench cpu measures of one model: kernels by themselves, replies, and the peers beside them.
import type { BenchModel } from '../common/bench_model.js';
import { kSameFile, type Case, type KernelCase, type Setup } from '../common/cases.js';
import { typeName } from '../common/gguf.js';
import {
  contextFor,
  peerSetups,
  select,
  type Measurement,
  type PeerRow,
  type PlanOptions,
} from '../common/plan.js';

export interface CpuPlanOptions extends PlanOptions {
  threads: readonly number[];
  builds: readonly ('relaxed' | 'simd')[];
}

const kDecodeTokens = 64;
const kMostSequences = 8;
const kLongContext = 2048;
const kLeastBufferBytes = 96 * 2 ** 20;
/** Prompt rows of the kernels' many-token case; their weights may lie in a cache, as in a prefill. */
const kPromptRows = 64;
const kPromptBufferBytes = 8 * 2 ** 20;
/** A tile of a prompt (AttentionTileTokens of engine/cpu/step.h, three heads to a KV head). */
const kAttentionTokens = 16;

export function cpuContext(model: BenchModel): number {
  return contextFor(model, kDecodeTokens);
}

/** Everything that is measured of `model`, in order. */
export function planCpu(model: BenchModel, options: CpuPlanOptions): Measurement[] {
  const ours = ourSetups(options);
  const all = [
    ...kernelMeasurements(model, options, ours),
    ...replyMeasurements(model, options, ours),
  ];
  return select(all, cpuContext(model), options.only);
}

function ourSetups({ hosts, threads, builds }: CpuPlanOptions): Setup[] {
  return hosts.flatMap((host) =>
    threads.flatMap((thread_count) =>
      builds.map((build): Setup => ({
        software: 'nonstop',
        host,
        device: 'cpu',
        threads: thread_count,
        build,
        weights: '',
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
  { quick }: CpuPlanOptions,
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
    const sizes = { layers, query_heads, kv_heads, head_dim, context: kLongContext };
    const name = `kernel-attention-${kLongContext}`;
    list.push([name, { kind: 'attention', ...sizes, tokens: 1, seconds }]);
    const tokens = kAttentionTokens;
    list.push([`${name}-x${tokens}`, { kind: 'attention', ...sizes, tokens, seconds }]);
  }
  return list.map(([what, one]) => ({ what, one, setups }));
}

const kDecodeContexts = { quick: [0, kLongContext], whole: [0, 512, kLongContext] };
const kPrompts = { quick: [32, 64, 430], whole: [32, 64, 430, 2000] };
const kSequences = { quick: [1, 8], whole: [1, 2, 4, 8] };
/** So many repeats that a sample takes a good part of a second. */
const kRepeatTokens = 200;

function replyMeasurements(
  model: BenchModel,
  options: CpuPlanOptions,
  ours: readonly Setup[],
): Measurement[] {
  const extent = options.quick ? 'quick' : 'whole';
  const main = mainBuild(ours);
  const places = options.threads.map((threads) => ({ device: 'cpu' as const, threads }));
  const peers = (one: string) => peerSetups(kCpuPeers, model, options, one, places);
  const list: Measurement[] = [];
  for (const context of model.extent === 'short' ? [0] : kDecodeContexts[extent]) {
    const one: Case = { kind: 'decode', context, tokens: kDecodeTokens };
    const setups = context === 0 ? [...ours, ...peers('decode')] : main;
    list.push({ what: `decode-${context}`, one, setups });
  }
  for (const tokens of model.extent === 'short' ? [430] : kPrompts[extent]) {
    const one: Case = { kind: 'prefill', tokens, repeats: Math.ceil(kRepeatTokens / tokens) };
    const setups = [...(tokens === 430 ? ours : main), ...peers(`prefill-${tokens}`)];
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

const kLlama = { cases: ['decode', 'prefill-430'], slow_cases: [] };
const kOnnx = { cases: ['decode', 'prefill-64'], slow_cases: [] };
const kWllama = { software: 'wllama', host: 'chromium', ...kLlama } as const;
const kTransformers = { software: 'transformers.js', host: 'chromium', ...kOnnx } as const;
const kCpuPeers: readonly PeerRow[] = [
  { ...kWllama, weights: kSameFile },
  { ...kWllama, weights: 'Q8_0' },
  // It reads a prompt of 430 tokens in up to a minute.
  { ...kWllama, weights: 'Q4_0', slow_cases: ['prefill-430'] },
  { ...kTransformers, weights: 'q8' },
  { ...kTransformers, weights: 'fp32' },
  { software: 'llama.cpp', host: 'native', ...kLlama, weights: kSameFile },
];
