// The caller's half of the worker protocol: starts the engine worker, matches replies to calls, and
// sees to it that every promise settles, also when the worker dies or never says hello.
import { EngineError, fromErrorRecord } from '../wasm/error.js';
import { isNode, spawnWorker, withTimeout, type WorkerHandle } from '../wasm/platform.js';
import {
  callMessage,
  isEventOf,
  isResultOf,
  type Calls,
  type Method,
  type RequestMessage,
  type WorkerMessage,
} from './protocol.js';

const kHelloLimitMs = 10_000;
/** How long a worker may take to end by itself. */
const kEndLimitMs = 10_000;

interface Pending {
  receive: (message: unknown) => void;
  fail: (error: EngineError) => void;
}

export interface CallOptions<M extends Method> {
  onEvent?: (event: Calls[M]['event']) => void;
  signal?: AbortSignal | undefined;
}

export function stoppedByCaller(signal: AbortSignal | undefined): EngineError {
  return new EngineError('aborted', 'The caller asked to stop.', { cause: signal?.reason });
}

export class WorkerClient {
  readonly #worker: WorkerHandle<WorkerMessage, RequestMessage>;
  readonly #pending = new Map<number, Pending>();
  #next_id = 1;
  #dead: EngineError | undefined;

  private constructor(worker: WorkerHandle<WorkerMessage, RequestMessage>) {
    this.#worker = worker;
  }

  /** Starts the worker file at `url` and waits for its hello, or for a stop. */
  static async start(url: URL, signal?: AbortSignal): Promise<WorkerClient> {
    const worker = spawnWorker<WorkerMessage, RequestMessage>(url, 'nonstop-engine');
    const client = new WorkerClient(worker);
    worker.hold(true);
    let stop = () => {};
    const hello = new Promise<void>((resolve, reject) => {
      stop = () => reject(stoppedByCaller(signal));
      worker.onMessage((message) => {
        if ('hello' in message) resolve();
        else client.#receive(message);
      });
      worker.onFailure((error) => {
        reject(error);
        client.#die(error);
      });
    });
    signal?.addEventListener('abort', stop, { once: true });
    try {
      await withTimeout(
        hello,
        kHelloLimitMs,
        `The engine worker (${url.href}) did not start within ${kHelloLimitMs} ms.`,
      );
    } catch (thrown) {
      void worker.terminate();
      throw thrown;
    } finally {
      signal?.removeEventListener('abort', stop);
    }
    worker.hold(false);
    return client;
  }

  /**
   * Calls `method`. An abort asks the worker to stop; the promise then settles with what the worker
   * answers: a reply cut short, or the error `aborted`.
   */
  call<M extends Method>(
    method: M,
    params: Calls[M]['params'],
    options: CallOptions<M> = {},
  ): Promise<Calls[M]['result']> {
    if (this.#dead) return Promise.reject(this.#dead);
    const { onEvent = () => {}, signal } = options;
    const id = this.#next_id++;
    return new Promise<Calls[M]['result']>((resolve, reject) => {
      const cancel = () => this.#worker.post({ id, method: 'cancel' });
      const settle = () => {
        signal?.removeEventListener('abort', cancel);
        this.#pending.delete(id);
        if (this.#pending.size === 0) this.#worker.hold(false);
      };
      this.#pending.set(id, {
        receive: (message) => {
          if (isEventOf(message, method)) onEvent(message.event);
          if (!isResultOf(message, method)) return;
          settle();
          resolve(message.result);
        },
        fail: (error) => {
          settle();
          reject(error);
        },
      });
      this.#worker.hold(true);
      this.#worker.post(callMessage(id, method, params));
      if (signal?.aborted) cancel();
      else signal?.addEventListener('abort', cancel, { once: true });
    });
  }

  #receive(message: Exclude<WorkerMessage, { hello: true }>): void {
    const pending = this.#pending.get(message.id);
    if (!pending) return;
    if ('error' in message) pending.fail(fromErrorRecord(message.error));
    else pending.receive(message);
  }

  #die(error: EngineError): void {
    if (this.#dead) return;
    this.#dead = error;
    for (const pending of [...this.#pending.values()]) pending.fail(error);
  }

  /**
   * Ends the worker; calls under way fail with `error` at once. Node's worker is asked to end itself:
   * Dawn aborts the program over a promise that is left open, and Node 20 over a worker of a worker
   * that ends in the same moment.
   */
  terminate(error = new EngineError('aborted', 'The engine was closed.')): void {
    const is_first = this.#dead === undefined;
    this.#die(error);
    if (!isNode) {
      void this.#worker.terminate();
    } else if (is_first) {
      const timer = setTimeout(() => void this.#worker.terminate(), kEndLimitMs);
      this.#worker.onFailure(() => clearTimeout(timer));
      this.#worker.hold(true);
      this.#worker.post({ id: 0, method: 'end' });
    }
  }
}
