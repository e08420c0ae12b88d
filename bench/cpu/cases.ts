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

export type EngineCase = DecodeCase | PrefillCase | SequencesCase | FactsCase;

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

export type Unit =
  'tok/s' | 'GB/s' | 'GOP/s' | 'GFLOP/s' | 'MB' | 'MB bound' | 'barriers/token' | 's';

export type Sample = Partial<Record<Unit, number>>;

/** Who is measured. Two setups are the same subject when all of these are equal. */
export interface Setup {
  software: 'nonstop' | 'wllama' | 'transformers.js' | 'llama.cpp';
  host: 'node' | 'chromium' | 'native';
  threads: number;
  /** Ours: relaxed or simd. Peers have one. */
  build: 'relaxed' | 'simd' | 'default';
  /** The weights' format, in the peer's own words. */
  weights: string;
  /** Conversations that the engine is made for. */
  sequences: number;
  /** The kernels' own module in place of an engine. */
  kernels: boolean;
}

export function setupKey(setup: Setup): string {
  return JSON.stringify([
    ...[setup.software, setup.host, setup.threads, setup.build],
    ...[setup.weights, setup.sequences, setup.kernels],
  ]);
}

export function describeSetup({ software, host, threads, build, weights }: Setup): string {
  const what = software === 'nonstop' ? build : weights;
  const where = host === 'native' ? '' : ` in ${host}`;
  return `${software} ${what}${where}, ${threads} ${threads === 1 ? 'thread' : 'threads'}`;
}
