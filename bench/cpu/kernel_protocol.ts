// Between whoever measures kernels and the worker that runs their module; and between that worker and
// its threads.
import type { KernelCase, Sample } from '../common/cases.js';

export interface KernelStart {
  module_url: string;
  thread_count: number;
}

export type KernelRequest =
  { kind: 'start'; start: KernelStart } | { kind: 'run'; one: KernelCase };

export type KernelReply =
  | { kind: 'hello' }
  | { kind: 'started' }
  | { kind: 'sample'; sample: Sample }
  | { kind: 'failed'; message: string };

export interface ThreadStart {
  module: WebAssembly.Module;
  memory: WebAssembly.Memory;
  stack_top: number;
  tls: number;
}

export type ThreadReport =
  { kind: 'loaded' } | { kind: 'starting' } | { kind: 'failed'; message: string };
