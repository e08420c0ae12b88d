// Kernel threads of the shared builds: one instance per thread over the engine's memory, each in a
// worker of its own started by the engine worker. The main instance allocates their stacks and
// thread-local blocks; ns_thread_main returns only after ns_threads_stop.
import { EngineError } from './error.js';
import { instantiate, type EngineInstance } from './instance.js';
import { parentPort, spawnWorker, withTimeout, type WorkerHandle } from './platform.js';

const kStartLimitMs = 10_000;

interface ThreadStart {
  module: WebAssembly.Module;
  memory: WebAssembly.Memory;
  index: number;
  stack_top: number;
  tls: number;
}

type ThreadReport = { kind: 'loaded' } | { kind: 'starting' } | { kind: 'failed'; message: string };

export class ThreadPool {
  readonly #workers: WorkerHandle<ThreadReport, ThreadStart>[] = [];
  readonly #engine: EngineInstance;

  private constructor(engine: EngineInstance) {
    this.#engine = engine;
  }

  /** Starts threads 1 .. thread_count - 1 and waits, within a bound, until all have arrived. */
  static async start(engine: EngineInstance, thread_count: number, url: URL): Promise<ThreadPool> {
    const pool = new ThreadPool(engine);
    try {
      const starting = [];
      for (let index = 1; index < thread_count; index++)
        starting.push(pool.#startThread(index, url));
      await withTimeout(
        Promise.all(starting),
        kStartLimitMs,
        `The (${thread_count - 1}) kernel threads did not start within ${kStartLimitMs} ms.`,
      );
      return pool;
    } catch (thrown) {
      await pool.terminate();
      throw thrown;
    }
  }

  #startThread(index: number, url: URL): Promise<void> {
    const { module, wasm_memory, exports, raw_exports } = this.#engine;
    const size_bytes = globalValue(raw_exports, '__tls_size');
    const alignment = Math.max(globalValue(raw_exports, '__tls_align'), 1);
    const start: ThreadStart = {
      module,
      memory: wasm_memory,
      index,
      stack_top: exports.ns_thread_stack_top(index),
      tls: exports.ns_thread_tls(index, size_bytes, alignment),
    };
    if (start.stack_top === 0) {
      throw new EngineError(
        'out_of_memory',
        `There is no memory for the stack of thread (${index}).`,
      );
    }
    const worker = spawnWorker<ThreadReport, ThreadStart>(url, 'nonstop-thread');
    this.#workers.push(worker);
    return new Promise((resolve, reject) => {
      worker.onFailure(reject);
      worker.onMessage((report) => {
        if (report.kind === 'loaded') worker.post(start);
        else if (report.kind === 'starting') resolve();
        else reject(new EngineError('backend_failed', `Thread (${index}): ${report.message}`));
      });
    });
  }

  /** Lets the threads return, then ends their workers. */
  async terminate(): Promise<void> {
    this.#engine.exports.ns_threads_stop();
    const workers = this.#workers.splice(0);
    await Promise.all(workers.map((worker) => worker.terminate()));
  }
}

function globalValue(exports: WebAssembly.Exports, name: string): number {
  const value = exports[name];
  return value instanceof WebAssembly.Global ? Number(value.value) : 0;
}

/** The body of a thread's worker. */
export function threadMain(): void {
  const { port } = parentPort<ThreadStart, ThreadReport>();
  port.onMessage((start) => {
    runThread(start, () => port.post({ kind: 'starting' })).catch((thrown: unknown) =>
      port.post({ kind: 'failed', message: String(thrown) }),
    );
  });
  port.post({ kind: 'loaded' });
}

async function runThread(start: ThreadStart, starting: () => void): Promise<void> {
  const { exports, raw_exports } = await instantiate(start.module, start.memory);
  const stack = raw_exports['__stack_pointer'] as WebAssembly.Global;
  stack.value = start.stack_top;
  (raw_exports['__wasm_init_tls'] as (block: number) => void)(start.tls);
  starting();
  try {
    exports.ns_thread_main(start.index);
  } catch (thrown) {
    // The engine waits for this thread's part of a step; it must learn that it will not come.
    exports.ns_thread_died();
    throw thrown;
  }
}
