// What ./run bench webgpu measures of one model: plain reading of the GPU's memory, replies, several of them
// at once, and getting ready. The same plan in Node, in Chromium and in the page that runs by itself.
import type { BenchModel } from '../common/bench_model.js';
import { kSameFile, type Case, type Setup } from '../common/cases.js';
import {
  contextFor,
  peerSetups,
  select,
  type Measurement,
  type PeerRow,
  type PlanOptions,
} from '../common/plan.js';

export interface WebgpuPlanOptions extends PlanOptions {
  /** Of a reply, in place of kDecodeTokens and kTogetherTokens. */
  tokens: number | undefined;
  /** How the engine runs its steps; undefined: as it chooses. */
  plan?: string | undefined;
}

const kDecodeTokens = 128;
/** Of each of several replies at once. */
const kTogetherTokens = 70;
const kMostSequences = 8;
/** Of what `read` reads; more where that takes no time (read_runner.ts). */
export const kReadBytes = 256 * 2 ** 20;
const kReadSeconds = 0.25;
const kFirstTokenPrompt = 64;
const kFirstTokenRepeats = 5;

export function webgpuContext(model: BenchModel, tokens: number | undefined): number {
  return contextFor(model, tokens ?? kDecodeTokens);
}

const kContexts = { quick: [0, 128], whole: [0, 128, 2048] };
const kPrompts = { quick: [430], whole: [64, 430, 2000] };
const kTogether = { quick: [1, 6], whole: [1, 2, 4, 6, 8] };

/** Everything that is measured of `model`, in order. */
export function planWebgpu(model: BenchModel, options: WebgpuPlanOptions): Measurement[] {
  const { quick, hosts, tokens, only } = options;
  const extent = quick ? 'quick' : 'whole';
  const ours = hosts.map((host) => ourSetup(host, options.plan));
  const list: Measurement[] = [];
  const add = (what: string, one: Case, setups: readonly Setup[]) =>
    list.push({ what, one, setups: [...setups] });
  const peers = (one: string) =>
    peerSetups(kWebgpuPeers, model, options, one, [{ device: 'webgpu', threads: 1 }]);

  const kernels = ours.map((setup) => ({ ...setup, kernels: true }));
  add('read', { kind: 'read', buffer_bytes: kReadBytes, seconds: kReadSeconds }, kernels);
  for (const context of kContexts[extent]) {
    const one: Case = { kind: 'decode', context, tokens: tokens ?? kDecodeTokens };
    add(`decode-${context}`, one, [...ours, ...(context === 128 ? peers('decode') : [])]);
  }
  for (const count of kPrompts[extent]) {
    const one: Case = { kind: 'prefill', tokens: count, repeats: 1 };
    add(`prefill-${count}`, one, [...ours, ...peers(`prefill-${count}`)]);
  }
  const first = { kind: 'first-token', tokens: kFirstTokenPrompt } as const;
  const name = `first-token-${kFirstTokenPrompt}`;
  const warm = { ...first, repeats: kFirstTokenRepeats, is_cold: false };
  add(name, warm, [...ours, ...peers(name)]);
  add(`${name}-cold`, { ...first, repeats: 1, is_cold: true }, ours);
  const together = ours.map((setup) => ({ ...setup, sequences: kMostSequences }));
  for (const count of kTogether[extent]) {
    const one: Case = { kind: 'together', count, tokens: tokens ?? kTogetherTokens };
    add(`sequences-${count}`, one, together);
  }
  add('load', { kind: 'load' }, ours);
  add('facts', { kind: 'facts' }, ours);
  return select(list, webgpuContext(model, tokens), only);
}

function ourSetup(host: Setup['host'], plan: string | undefined): Setup {
  return {
    ...{ software: 'nonstop', host, device: 'webgpu', threads: 1, build: 'default' },
    ...{ weights: '', sequences: 1, kernels: false },
    ...(plan === undefined ? {} : { plan }),
  };
}

const kWebgpuPeers: readonly PeerRow[] = [
  {
    ...{ software: 'wllama', host: 'chromium', weights: kSameFile },
    ...{ cases: ['decode', 'prefill-430', 'first-token-64'], slow_cases: [] },
  },
  {
    ...{ software: 'transformers.js', host: 'chromium', weights: 'fp32' },
    ...{ cases: ['decode', 'first-token-64'], slow_cases: [] },
  },
];
