// The page of ./run bench cpu: one engine, or the kernels.
import { EngineRunner } from '../common/engine_runner.js';
import { KernelRunner } from './kernel_runner.js';
import { servePage } from '../common/page_globals.js';

const kEngineWorker = new URL('/nonstop/worker.mjs', location.href).href;
const kKernelWorker = new URL('/bench/kernel_worker.mjs', location.href).href;

servePage(async (given) => {
  if (given.kind === 'engine') return EngineRunner.start(given.setup, kEngineWorker);
  if (given.kind === 'kernels') return KernelRunner.start(given.setup, kKernelWorker);
  throw new TypeError(`This page does not run "${given.kind}".`);
});
