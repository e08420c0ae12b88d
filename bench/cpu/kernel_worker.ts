// The worker of the kernels' module, and its threads: one file, as web/src/worker/main.ts is. Which it
// is follows from the role that its starter gave.
import { compileModule, makeSharedMemory } from '../../web/src/wasm/instance.js';
import { parentPort, spawnWorker } from '../../web/src/wasm/platform.js';
import { wasiImports } from '../../web/src/wasm/wasi.js';
import type { KernelCase, Sample } from '../common/cases.js';
import type {
  KernelReply,
  KernelRequest,
  KernelStart,
  ThreadReport,
  ThreadStart,
} from './kernel_protocol.js';

const kWarmUpSeconds = 0.1;
const kReadyLimitMs = 10_000;

interface Instance {
  exports: WebAssembly.Exports;
  call: (name: string, ...values: number[]) => number;
}

async function instantiate(
  module: WebAssembly.Module,
  shared: WebAssembly.Memory | undefined,
): Promise<Instance> {
  let memory = shared;
  const current = () => {
    if (!memory) throw new Error('The module has no memory yet.');
    return memory;
  };
  const { exports } = await WebAssembly.instantiate(module, {
    wasi_snapshot_preview1: wasiImports(module, { memory: current, log: console.error }),
    ...(shared ? { env: { memory: shared } } : {}),
  });
  const own = exports['memory'];
  if (!memory && own instanceof WebAssembly.Memory) memory = own;
  const call = (name: string, ...values: number[]) => {
    const found = exports[name];
    if (typeof found !== 'function') throw new Error(`The module has no function "${name}".`);
    return Number(found(...values));
  };
  return { exports, call };
}

class Kernels {
  readonly #instance: Instance;
  readonly #thread_count: number;

  private constructor(instance: Instance, thread_count: number) {
    this.#instance = instance;
    this.#thread_count = thread_count;
  }

  static async start({ module_url, thread_count }: KernelStart): Promise<Kernels> {
    const module = await compileModule(new URL(module_url));
    const memory = thread_count > 1 ? makeSharedMemory() : undefined;
    const instance = await instantiate(module, memory);
    instance.call('_initialize');
    if (memory) {
      const indices = Array.from({ length: thread_count - 1 }, (_, i) => i + 1);
      await Promise.all(indices.map((index) => startThread(instance, module, memory, index)));
      waitUntil(() => instance.call('bench_threads_ready') >= thread_count - 1);
    }
    return new Kernels(instance, thread_count);
  }

  run(one: KernelCase): Sample {
    if (this.#prepare(one) === 0) {
      throw new Error(`The case "${one.kind}" does not fit into memory, or has no kernel.`);
    }
    const pass_seconds = this.#timePasses(kWarmUpSeconds);
    const read_bytes = this.#instance.call('bench_read_bytes');
    const operations = this.#instance.call('bench_operations');
    const passes = Math.max(1, Math.ceil(one.seconds / pass_seconds));
    const seconds = this.#time(passes) / passes;
    const bandwidth = { 'GB/s': read_bytes / seconds / 1e9 };
    const speed = operations / seconds / 1e9;
    if (one.kind === 'read') return bandwidth;
    const unit = one.kind === 'attention' ? 'GFLOP/s' : 'GOP/s';
    // What several tokens share is not read for each of them.
    return one.tokens > 1 ? { [unit]: speed } : { ...bandwidth, [unit]: speed };
  }

  #prepare(one: KernelCase): number {
    const { call } = this.#instance;
    switch (one.kind) {
      case 'read':
        return call('bench_prepare_read', one.buffer_bytes);
      case 'matmul': {
        const { type_id, rows, columns, tokens, buffer_bytes } = one;
        return call('bench_prepare_matmul', type_id, rows, columns, tokens, buffer_bytes);
      }
      case 'attention': {
        const { layers, query_heads, kv_heads, head_dim, context, tokens } = one;
        const sizes = [layers, query_heads, kv_heads, head_dim, context, tokens];
        return call('bench_prepare_attention', ...sizes);
      }
    }
  }

  /** Runs for at least so long, twice at least; seconds of the last pass. */
  #timePasses(at_least_seconds: number): number {
    let sum = 0;
    let last = 0;
    for (let i = 0; i < 2 || sum < at_least_seconds; i++) {
      last = this.#time(1);
      sum += last;
    }
    return Math.max(last, 1e-6);
  }

  #time(passes: number): number {
    const begin_ms = performance.now();
    this.#instance.call('bench_run', passes, this.#thread_count);
    return (performance.now() - begin_ms) / 1000;
  }
}

function startThread(
  { exports, call }: Instance,
  module: WebAssembly.Module,
  memory: WebAssembly.Memory,
  index: number,
): Promise<void> {
  const tls_size = exports['__tls_size'];
  const start: ThreadStart = {
    module,
    memory,
    stack_top: call('bench_thread_stack_top', index),
    tls: call(
      'bench_thread_tls',
      index,
      tls_size instanceof WebAssembly.Global ? Number(tls_size.value) : 0,
    ),
  };
  const worker = spawnWorker<ThreadReport, ThreadStart>(new URL(import.meta.url), 'nonstop-thread');
  return new Promise((resolve, reject) => {
    worker.onFailure(reject);
    worker.onMessage((report) => {
      if (report.kind === 'loaded') worker.post(start);
      else if (report.kind === 'starting') resolve();
      else reject(new Error(`Thread (${index}): ${report.message}`));
    });
  });
}

/** Threads arrive by themselves; this worker has nothing else to do meanwhile. */
function waitUntil(isTrue: () => boolean): void {
  const limit_ms = performance.now() + kReadyLimitMs;
  while (!isTrue()) {
    if (performance.now() > limit_ms) {
      throw new Error(`The threads did not start within ${kReadyLimitMs} ms.`);
    }
  }
}

async function runThread(start: ThreadStart, starting: () => void): Promise<void> {
  const { exports, call } = await instantiate(start.module, start.memory);
  const stack = exports['__stack_pointer'];
  if (!(stack instanceof WebAssembly.Global)) throw new Error('The module has no stack pointer.');
  stack.value = start.stack_top;
  call('__wasm_init_tls', start.tls);
  starting();
  try {
    call('bench_thread_main');
  } catch (thrown) {
    call('bench_thread_died');
    throw thrown;
  }
}

function threadMain(): void {
  const { port } = parentPort<ThreadStart, ThreadReport>();
  port.onMessage((start) => {
    runThread(start, () => port.post({ kind: 'starting' })).catch((thrown: unknown) =>
      port.post({ kind: 'failed', message: String(thrown) }),
    );
  });
  port.post({ kind: 'loaded' });
}

function kernelsMain(): void {
  const { port } = parentPort<KernelRequest, KernelReply>();
  let kernels: Kernels | undefined;
  const answer = async (request: KernelRequest): Promise<KernelReply> => {
    if (request.kind === 'start') {
      kernels = await Kernels.start(request.start);
      return { kind: 'started' };
    }
    if (!kernels) throw new Error('The kernels are not started.');
    return { kind: 'sample', sample: kernels.run(request.one) };
  };
  port.onMessage((request) => {
    answer(request).then(port.post, (thrown: unknown) =>
      port.post({ kind: 'failed', message: String(thrown) }),
    );
  });
  port.post({ kind: 'hello' });
}

if (parentPort().role === 'nonstop-thread') threadMain();
else kernelsMain();
