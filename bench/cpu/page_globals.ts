// What the program that opens a page asks of it: to start one subject, then to run cases.
import type { Case, Sample } from './cases.js';
import type { EngineSetup } from './engine_runner.js';
import type { KernelSetup } from './kernel_runner.js';
import type { Runner } from './runner.js';

export interface WllamaSetup {
  model_url: string;
  threads: number;
  context: number;
}

export interface TransformersSetup {
  /** A folder of /models/, laid out as on the Hub. */
  model: string;
  dtype: string;
  threads: number;
}

export type PageSetup =
  | { kind: 'engine'; setup: EngineSetup }
  | { kind: 'kernels'; setup: KernelSetup }
  | { kind: 'wllama'; setup: WllamaSetup }
  | { kind: 'transformers.js'; setup: TransformersSetup };

/** Errors cross to the program as text. */
export type PageReply = { sample: Sample } | { error: string };

declare global {
  function benchStart(setup: PageSetup): Promise<PageReply>;
  function benchRun(one: Case): Promise<PageReply>;
}

/** Defines the two functions over whatever `start` makes. */
export function servePage(start: (setup: PageSetup) => Promise<Runner>): void {
  let runner: Runner | undefined;
  const guarded = async (work: () => Promise<Sample>): Promise<PageReply> => {
    try {
      return { sample: await work() };
    } catch (thrown) {
      return { error: thrown instanceof Error ? thrown.message : String(thrown) };
    }
  };
  globalThis.benchStart = (setup) =>
    guarded(async () => {
      runner = await start(setup);
      return {};
    });
  globalThis.benchRun = (one) =>
    guarded(async () => {
      if (!runner) throw new Error('Nothing is started in this page.');
      return runner.run(one);
    });
}
