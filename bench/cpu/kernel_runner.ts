// The kernels by themselves, in a worker of their own; in Node and in a page.
import { EngineError } from '../../web/src/api/index.js';
import { moduleFileName } from '../../web/src/wasm/instance.js';
import { spawnWorker, withTimeout, type WorkerHandle } from '../../web/src/wasm/platform.js';
import { isKernelCase, type Case, type Sample } from '../common/cases.js';
import type { KernelSetup } from '../common/page_globals.js';
import type { Runner } from '../common/runner.js';
import type { KernelReply, KernelRequest } from './kernel_protocol.js';

const kLimitMs = 120_000;

export class KernelRunner implements Runner {
  readonly #worker: WorkerHandle<KernelReply, KernelRequest>;
  #receive: (reply: KernelReply) => void = () => {};
  #fail: (error: Error) => void = () => {};

  private constructor(worker: WorkerHandle<KernelReply, KernelRequest>) {
    this.#worker = worker;
    worker.hold(true);
    worker.onMessage((reply) => this.#receive(reply));
    worker.onFailure((error) => this.#fail(error));
  }

  static async start({ build, threads }: KernelSetup, worker_url: string): Promise<KernelRunner> {
    const url = new URL(worker_url);
    const runner = new KernelRunner(spawnWorker(url, 'nonstop-engine'));
    const name = moduleFileName({ build, shared: threads > 1 }).replace('nonstop-', 'bench-');
    const start = { module_url: new URL(name, url).href, thread_count: threads };
    try {
      await runner.#next(() => {});
      await runner.#next(() => runner.#worker.post({ kind: 'start', start }));
      return runner;
    } catch (thrown) {
      // It holds the program until it is ended.
      await runner.close();
      throw thrown;
    }
  }

  async run(one: Case): Promise<Sample> {
    if (!isKernelCase(one)) throw new TypeError(`The kernels have no case "${one.kind}".`);
    const reply = await this.#next(() => this.#worker.post({ kind: 'run', one }));
    if (reply.kind !== 'sample') throw new EngineError('internal', 'The worker gave no sample.');
    return reply.sample;
  }

  #next(ask: () => void): Promise<KernelReply> {
    const reply = new Promise<KernelReply>((resolve, reject) => {
      this.#receive = (message) => {
        if (message.kind !== 'failed') resolve(message);
        else reject(new EngineError('internal', message.message));
      };
      this.#fail = reject;
    });
    ask();
    return withTimeout(reply, kLimitMs, `The kernels did not answer within ${kLimitMs} ms.`);
  }

  async close(): Promise<void> {
    this.#worker.terminate();
  }
}
