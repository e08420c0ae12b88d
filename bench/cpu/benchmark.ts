// ./run bench cpu: its options, models and subjects.
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Arguments } from '../../apps/cli/src/parse.js';
import type { Benchmark } from '../common/command.js';
import { kDefaultModel } from '../../apps/cli/src/models.js';
import { kBenchDist } from '../common/subjects.js';
import type { Setup } from '../common/cases.js';
import { KernelRunner } from './kernel_runner.js';
import { cpuContext, planCpu, type CpuPlanOptions } from './plan.js';

const kKernelWorker = pathToFileURL(path.join(kBenchDist, 'kernel_worker.mjs')).href;

export const kCpuBenchmark: Benchmark = {
  name: 'cpu',
  models: {
    quick: [kDefaultModel],
    whole: [kDefaultModel, 'gemma-3-270m', 'smollm2-360m-shape'],
  },
  hosts: ['node', 'chromium'],
  refused_options: ['tokens', 'pack', 'plan'],
  page: 'cpu.html',
  chromium_flags: [],
  plan: (model, options, args) => planCpu(model, { ...options, ...cpuOptions(args) }),
  context: cpuContext,
  startKernels: (setup) => KernelRunner.start(kernelSetup(setup), kKernelWorker),
  kernelPage: (setup) => ({ kind: 'kernels', setup: kernelSetup(setup) }),
};

function cpuOptions(args: Arguments): Pick<CpuPlanOptions, 'threads' | 'builds'> {
  const threads = args.number('threads');
  const build = args.text('build');
  return {
    threads: threads === undefined ? [1, 2] : [threads],
    builds: build === 'simd' || build === 'relaxed' ? [build] : ['relaxed', 'simd'],
  };
}

function kernelSetup({ build, threads }: Setup) {
  return { build: build === 'simd' ? ('simd' as const) : ('relaxed' as const), threads };
}
