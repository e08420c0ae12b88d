// Which of the builds of the engine runs here, and why: on the CPU {simd, relaxed} x {one thread, several},
// or the one for WebGPU. Pure functions of what was found, so that every row of the choice is a test.
import { EngineError } from './error.js';
import type { Capabilities } from './probe.js';

export type SimdBuild = 'simd' | 'relaxed';
export type BackendName = 'cpu-simd' | 'cpu-relaxed' | 'cpu-reference' | 'webgpu';

export interface Surroundings extends Capabilities {
  memory_sharable: boolean;
  core_count: number;
}

export interface BuildWish {
  build?: SimdBuild | undefined;
  /** Undefined: all cores but one. */
  thread_count?: number | undefined;
}

export interface BuildChoice {
  build: SimdBuild;
  shared: boolean;
  thread_count: number;
  backend: BackendName;
  reason: string;
}

export const kMaxThreadCount = 64;

export type DeviceWish = 'auto' | 'cpu' | 'webgpu';

export interface GpuWanted {
  device: DeviceWish;
  reference: boolean;
  build: SimdBuild | undefined;
  /** Nothing is computed: the header alone is read. */
  header_only: boolean;
}

/** Whether the GPU is looked for at all. What names a build for the CPU asks for the CPU. */
export function wantsGpu(wish: GpuWanted): boolean {
  const names_cpu = wish.reference || wish.build !== undefined;
  if (wish.device === 'webgpu' && names_cpu) {
    throw new EngineError(
      'invalid_argument',
      'The device webgpu excludes a build of the CPU and the reference kernels.',
    );
  }
  if (wish.header_only || wish.device === 'cpu') return false;
  return wish.device === 'webgpu' || !names_cpu;
}

/** The build for WebGPU; `why` is the middle of a sentence about the adapter. */
export function gpuBuild(device: DeviceWish, why: string): BuildChoice {
  return {
    build: 'simd',
    shared: false,
    thread_count: 1,
    backend: 'webgpu',
    reason: device === 'webgpu' ? `WebGPU was asked for; ${why}.` : `WebGPU: ${why}.`,
  };
}

export function chooseBuild(found: Surroundings, wish: BuildWish): BuildChoice {
  const [build, why_build] = chooseSimd(found, wish.build);
  const [thread_count, why_threads] = chooseThreads(found, wish.thread_count);
  return {
    build,
    shared: thread_count > 1,
    thread_count,
    backend: build === 'relaxed' ? 'cpu-relaxed' : 'cpu-simd',
    reason: `${why_build} ${why_threads}`,
  };
}

function chooseSimd(found: Surroundings, wish: SimdBuild | undefined): [SimdBuild, string] {
  if (!found.simd) {
    throw new EngineError('backend_failed', 'This WebAssembly engine has no SIMD (simd128).');
  }
  const fault = !found.relaxed
    ? 'this WebAssembly engine has no relaxed SIMD'
    : found.relaxed_fault && `relaxed SIMD failed its self-test (${found.relaxed_fault})`;
  if (wish === 'relaxed' && fault) {
    throw new EngineError('backend_failed', `The relaxed build was asked for, but ${fault}.`);
  }
  if (wish) return [wish, `The ${wish} build was asked for.`];
  if (fault) return ['simd', `Plain SIMD: ${fault}.`];
  return ['relaxed', 'Relaxed SIMD is here and passed its self-test.'];
}

function chooseThreads(found: Surroundings, wish: number | undefined): [number, string] {
  const wanted = wish ?? Math.max(1, found.core_count - 1);
  if (wanted === 1) {
    const why = wish === undefined ? `all cores but one (of ${found.core_count})` : 'as asked';
    return [1, `One thread: ${why}.`];
  }
  if (!found.threads) {
    return [1, 'One thread: this WebAssembly engine has no shared memory.'];
  }
  if (!found.memory_sharable) {
    return [
      1,
      'One thread: the page is not cross-origin isolated ' +
        '(Document-Isolation-Policy, or COOP and COEP, would allow more).',
    ];
  }
  const count = Math.min(wanted, kMaxThreadCount);
  return [count, `${count} threads: ${wish === undefined ? 'all cores but one' : 'as asked'}.`];
}
