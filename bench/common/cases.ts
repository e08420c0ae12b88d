// What can be measured, as plain data: it goes to pages, workers and other programs. A runner (ours in
// Node or in a page, a peer) runs a case once and gives a sample: numbers by unit.

/** Tokens after a context of so many (0: a prompt of one token, which every reply has). */
export interface DecodeCase {
  kind: 'decode';
  context: number;
  tokens: number;
}

/** Reading a prompt; several times where one is over too soon. */
export interface PrefillCase {
  kind: 'prefill';
  tokens: number;
  repeats: number;
}

/** From asking for a reply to its first token. */
export interface FirstTokenCase {
  kind: 'first-token';
  tokens: number;
  repeats: number;
  /** With nothing ready: from the opening of a page, in Node from Engine.load. */
  is_cold: boolean;
}

/** From Engine.load until another engine is ready, beside the one that is there. */
export interface LoadCase {
  kind: 'load';
}

/** Several replies at once, from the first request to the last token of all. */
export interface TogetherCase {
  kind: 'together';
  count: number;
  tokens: number;
}

/** Several replies at once, counted while all of them are under way. */
export interface SequencesCase {
  kind: 'sequences';
  count: number;
  tokens: number;
}

/** What the engine says of itself once all is measured. */
export interface FactsCase {
  kind: 'facts';
}

export type EngineCase =
  DecodeCase | PrefillCase | FirstTokenCase | LoadCase | TogetherCase | SequencesCase | FactsCase;

/** Kernels by themselves; `seconds` is how long a sample takes at least. */
export type KernelCase = { seconds: number } & (
  | { kind: 'read'; buffer_bytes: number }
  | {
      kind: 'matmul';
      type_id: number;
      rows: number;
      columns: number;
      tokens: number;
      buffer_bytes: number;
    }
  | {
      kind: 'attention';
      layers: number;
      query_heads: number;
      kv_heads: number;
      head_dim: number;
      context: number;
      tokens: number;
    }
);

export type Case = EngineCase | KernelCase;

export function isKernelCase(one: Case): one is KernelCase {
  return one.kind === 'read' || one.kind === 'matmul' || one.kind === 'attention';
}

/** What a token costs on the GPU, by the names of the engine's figures. */
export const kTokenCosts = {
  dispatches: 'dispatches/token',
  submits: 'submits/token',
  waits: 'waits/token',
  uploads: 'uploads/token',
  readback_bytes: 'readback bytes/token',
  tokens_in_flight: 'tokens in flight',
} as const;

export const kUnits = [
  ...(['tok/s', 'ms', 'GB/s', 'GOP/s', 'GFLOP/s'] as const),
  ...(['MB', 'MB bound', 'GPU MB', 'barriers/token', 's'] as const),
  ...Object.values(kTokenCosts),
];
export type Unit = (typeof kUnits)[number];

export type Sample = Partial<Record<Unit, number>>;

/** Who is measured. Two setups are the same subject when all of these are equal. */
export interface Setup {
  software: 'nonstop' | 'wllama' | 'transformers.js' | 'llama.cpp';
  host: 'node' | 'chromium' | 'native';
  device: 'cpu' | 'webgpu';
  /** 1 on the GPU. */
  threads: number;
  /** Ours on the CPU: relaxed or simd. Everything else has one. */
  build: 'relaxed' | 'simd' | 'default';
  /** The weights' format, in the peer's own words. */
  weights: string;
  /** Conversations that the engine is made for. */
  sequences: number;
  /** The kernels by themselves in place of an engine. */
  kernels: boolean;
  /** Ours: how steps are run, where it is not the engine's choice. */
  plan?: string;
}

export function setupKey(setup: Setup): string {
  return JSON.stringify([
    ...[setup.software, setup.host, setup.device, setup.threads, setup.build],
    ...[setup.weights, setup.sequences, setup.kernels, setup.plan],
  ]);
}

export function describeSetup({ software, host, device, threads, build, weights }: Setup): string {
  const what = [build === 'default' ? '' : build, weights, device === 'webgpu' ? device : ''];
  const name = [software, ...what.filter((word) => word !== '')].join(' ');
  const where = host === 'native' ? '' : ` in ${host}`;
  if (device === 'webgpu') return `${name}${where}`;
  return `${name}${where}, ${threads} ${threads === 1 ? 'thread' : 'threads'}`;
}

/** Weights of a peer that reads the model's own file. */
export const kSameFile = 'same file';
