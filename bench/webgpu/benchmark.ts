// ./run bench webgpu: its options, models and subjects.
import { kDefaultModel } from '../../apps/cli/src/models.js';
import type { Benchmark } from '../common/command.js';
import { planWebgpu, webgpuContext } from './plan.js';
import { GpuReadRunner } from './read_runner.js';

export const kWebgpuBenchmark: Benchmark = {
  name: 'webgpu',
  models: { quick: [kDefaultModel], whole: [kDefaultModel] },
  hosts: ['chromium'],
  refused_options: ['threads', 'build'],
  page: 'webgpu.html',
  // Without it Chromium gives no software adapter; on a machine with a GPU it changes nothing.
  chromium_flags: ['--enable-unsafe-webgpu'],
  plan: (model, options, args) =>
    planWebgpu(model, { ...options, tokens: args.number('tokens'), plan: args.text('plan') }),
  context: (model, args) => webgpuContext(model, args.number('tokens')),
  startKernels: () => GpuReadRunner.start(),
  kernelPage: () => ({ kind: 'gpu read' }),
};
