// The verb "bench": which benchmark is meant.
import type { Arguments } from '../apps/cli/src/parse.js';
import { EngineError } from '../web/src/api/index.js';
import { runBenchmark } from './common/command.js';
import { kCpuBenchmark } from './cpu/benchmark.js';
import { kWebgpuBenchmark } from './webgpu/benchmark.js';
import { packFolder } from './webgpu/pack.js';

const kBenchmarks = [kCpuBenchmark, kWebgpuBenchmark];

export async function runBench(args: Arguments, signal: AbortSignal): Promise<number> {
  const bench = kBenchmarks.find(({ name }) => name === args.positional);
  if (!bench) {
    const given = args.positional ?? 'nothing';
    throw new EngineError(
      'invalid_argument',
      `The verb "bench" measures cpu or webgpu, not (${given}).`,
    );
  }
  const folder = bench === kWebgpuBenchmark ? args.text('pack') : undefined;
  if (folder !== undefined) return packFolder(folder, args, signal);
  return runBenchmark(bench, args, signal);
}
