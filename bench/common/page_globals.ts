// What the program that opens a page asks of it: to start one subject, then to run cases.
import type { Case, Sample, Setup } from './cases.js';
import type { EngineSetup } from './engine_runner.js';
import type { About, Runner } from './runner.js';

/** The CPU's kernels in a module of their own. */
export interface KernelSetup {
  build: 'relaxed' | 'simd';
  threads: number;
}

export interface WllamaSetup {
  model_url: string;
  device: Setup['device'];
  threads: number;
  context: number;
}

export interface TransformersSetup {
  /** A folder of /models/, laid out as on the Hub. */
  model: string;
  dtype: string;
  device: Setup['device'];
  threads: number;
}

export type PageSetup =
  | { kind: 'engine'; setup: EngineSetup }
  | { kind: 'kernels'; setup: KernelSetup }
  | { kind: 'gpu read' }
  | { kind: 'wllama'; setup: WllamaSetup }
  | { kind: 'transformers.js'; setup: TransformersSetup };

/** Errors cross to the program as text. */
export type PageReply<T> = { value: T } | { error: string };

declare global {
  function benchStart(setup: PageSetup): Promise<PageReply<About>>;
  function benchRun(one: Case): Promise<PageReply<Sample>>;
}

/** Defines the two functions over whatever `start` makes. */
export function servePage(start: (setup: PageSetup) => Promise<Runner>): void {
  let runner: Runner | undefined;
  const guarded = async <T>(work: () => Promise<T>): Promise<PageReply<T>> => {
    try {
      return { value: await work() };
    } catch (thrown) {
      return { error: thrown instanceof Error ? thrown.message : String(thrown) };
    }
  };
  globalThis.benchStart = (setup) =>
    guarded(async () => {
      runner = await start(setup);
      return runner.about ?? {};
    });
  globalThis.benchRun = (one) =>
    guarded(async () => {
      if (!runner) throw new Error('Nothing is started in this page.');
      return runner.run(one);
    });
}
