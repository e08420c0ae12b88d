// What differs between a browser and Node, behind one small face: built-in modules, workers and their
// messages, and a pause that lets messages in. Everything else is the same code in both.
// Node's modules come from process.getBuiltinModule (Node 20.16 and later), so that no bundler ever
// sees an import of "node:...".
import type { Worker as NodeWorker } from 'node:worker_threads';
import { EngineError } from './error.js';

/** A typed end of a message channel. `In` is what arrives, `Out` what is sent. */
export interface Port<In, Out> {
  post(message: Out, transfer?: ArrayBuffer[]): void;
  onMessage(listener: (message: In) => void): void;
}

export interface WorkerHandle<In, Out> extends Port<In, Out> {
  /** Called once when the worker cannot start, throws, or ends by itself. */
  onFailure(listener: (error: EngineError) => void): void;
  /** Node: whether this worker keeps the program alive. It does not until asked to. */
  hold(alive: boolean): void;
  /** Resolves when the worker has ended; a browser does not tell when that is. */
  terminate(): Promise<void>;
}

export type WorkerRole = 'nonstop-engine' | 'nonstop-thread' | 'nonstop-template';

export const isNode: boolean =
  typeof process === 'object' &&
  typeof process.versions?.node === 'string' &&
  typeof process.getBuiltinModule === 'function';

interface BrowserWorkerScope {
  readonly name?: string;
  postMessage(message: unknown, transfer?: Transferable[]): void;
  addEventListener(type: 'message', listener: (event: MessageEvent<unknown>) => void): void;
}

/** The port to the thread that started this worker, and the role it gave. */
export function parentPort<In, Out>(): { role: string; port: Port<In, Out> } {
  return isNode ? nodeParentPort() : browserParentPort();
}

function nodeParentPort<In, Out>(): { role: string; port: Port<In, Out> } {
  const threads = process.getBuiltinModule('node:worker_threads');
  const port = threads.parentPort;
  if (!port)
    throw new EngineError('wrong_state', 'This file is a worker; it was not started as one.');
  const data: unknown = threads.workerData;
  return {
    role: typeof data === 'object' && data && 'role' in data ? String(data.role) : '',
    port: {
      post: (message, transfer) => port.postMessage(message, transfer),
      onMessage: (listener) => port.on('message', (message) => listener(message as In)),
    },
  };
}

function browserParentPort<In, Out>(): { role: string; port: Port<In, Out> } {
  const scope = globalThis as unknown as BrowserWorkerScope;
  return {
    role: scope.name ?? '',
    port: {
      post: (message, transfer) => scope.postMessage(message, transfer ?? []),
      onMessage: (listener) =>
        scope.addEventListener('message', (event) => listener(event.data as In)),
    },
  };
}

export interface WorkerLimits {
  /** Node only: the worker's JavaScript heap. A browser has no such limit to set. */
  heap_mib?: number;
}

/** Starts `url` as a module worker that finds `role` in parentPort(). */
export function spawnWorker<In, Out>(
  url: URL,
  role: WorkerRole,
  limits: WorkerLimits = {},
): WorkerHandle<In, Out> {
  return isNode ? spawnNodeWorker(url, role, limits) : spawnBrowserWorker(url, role);
}

function spawnNodeWorker<In, Out>(
  url: URL,
  role: WorkerRole,
  limits: WorkerLimits,
): WorkerHandle<In, Out> {
  const threads = process.getBuiltinModule('node:worker_threads');
  const resourceLimits =
    limits.heap_mib === undefined ? {} : { maxOldGenerationSizeMb: limits.heap_mib };
  const worker: NodeWorker = new threads.Worker(url, {
    workerData: { role },
    name: role,
    resourceLimits,
    stdout: false,
    stderr: false,
  });
  worker.unref();
  return {
    post: (message, transfer) => worker.postMessage(message, transfer),
    onMessage: (listener) => void worker.on('message', (message) => listener(message as In)),
    onFailure: (listener) => {
      worker.on('error', (error) => listener(workerFailure(role, String(error))));
      worker.on('exit', (code) => listener(workerFailure(role, `exit code ${code}`)));
    },
    hold: (alive) => (alive ? worker.ref() : worker.unref()),
    terminate: async () => void (await worker.terminate()),
  };
}

function spawnBrowserWorker<In, Out>(url: URL, role: WorkerRole): WorkerHandle<In, Out> {
  const worker = new Worker(url, { type: 'module', name: role });
  return {
    post: (message, transfer) => worker.postMessage(message, transfer ?? []),
    onMessage: (listener) =>
      worker.addEventListener('message', (event) => listener(event.data as In)),
    onFailure: (listener) => {
      worker.addEventListener('error', (event) => {
        event.preventDefault();
        listener(workerFailure(role, event.message || `it could not be loaded from ${url.href}`));
      });
      worker.addEventListener('messageerror', () =>
        listener(workerFailure(role, 'a message could not be read')),
      );
    },
    hold: () => {},
    terminate: async () => worker.terminate(),
  };
}

function workerFailure(role: WorkerRole, detail: string): EngineError {
  return new EngineError('internal', `The worker "${role}" failed (${detail}).`);
}

/** Lets waiting messages in, then goes on; far cheaper than a timer, which browsers clamp to 4 ms. */
export const yieldToMessages: () => Promise<void> = makeYield();

function makeYield(): () => Promise<void> {
  if (isNode) return () => new Promise((resolve) => setImmediate(resolve));
  const channel = new MessageChannel();
  const waiting: (() => void)[] = [];
  channel.port1.onmessage = () => waiting.shift()?.();
  return () =>
    new Promise((resolve) => {
      waiting.push(resolve);
      channel.port2.postMessage(null);
    });
}

/** Threads share memory only in an isolated page; Node always can. */
export function canShareMemory(): boolean {
  if (typeof SharedArrayBuffer !== 'function') return false;
  return isNode || globalThis.crossOriginIsolated === true;
}

/** The cores that this program may use. */
export function coreCount(): number {
  if (isNode) return process.getBuiltinModule('node:os').availableParallelism();
  return globalThis.navigator?.hardwareConcurrency ?? 1;
}

/** A promise of a message with a bound: resolves, or rejects with `timeout` after `limit_ms`. */
export function withTimeout<T>(
  promise: Promise<T>,
  limit_ms: number,
  sentence: string,
): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const limit = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new EngineError('timeout', sentence)), limit_ms);
  });
  return Promise.race([promise, limit]).finally(() => clearTimeout(timer));
}
