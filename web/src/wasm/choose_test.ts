import { expect, test } from 'vitest';
import { chooseBuild, gpuBuild, wantsGpu, type GpuWanted, type Surroundings } from './choose.js';
import { moduleFileName } from './instance.js';
import { probeCapabilities, relaxedDotFault } from './probe.js';

const kEverything: Surroundings = {
  simd: true,
  relaxed: true,
  relaxed_fault: undefined,
  threads: true,
  memory_sharable: true,
  core_count: 8,
};

test('relaxed SIMD and all cores but one where everything works', () => {
  expect(chooseBuild(kEverything, {})).toMatchObject({
    build: 'relaxed',
    shared: true,
    thread_count: 7,
    backend: 'cpu-relaxed',
  });
});

test('two cores give one thread, and the module without shared memory', () => {
  const choice = chooseBuild({ ...kEverything, core_count: 2 }, {});
  expect(choice).toMatchObject({ shared: false, thread_count: 1 });
  expect(choice.reason).toContain('all cores but one (of 2)');
});

test('a failed self-test falls back to plain SIMD and says so', () => {
  const found = { ...kEverything, relaxed_fault: 'dot of (1, 1, 0) gave 8 instead of 4' };
  const choice = chooseBuild(found, {});
  expect(choice.backend).toBe('cpu-simd');
  expect(choice.reason).toContain('failed its self-test (dot of (1, 1, 0) gave 8 instead of 4)');
  expect(() => chooseBuild(found, { build: 'relaxed' })).toThrow(
    /asked for, but relaxed SIMD failed/,
  );
});

test('a forced build is taken and named', () => {
  expect(chooseBuild(kEverything, { build: 'simd' })).toMatchObject({ backend: 'cpu-simd' });
});

test('a page that is not isolated has one thread, and the reason says what would help', () => {
  const choice = chooseBuild({ ...kEverything, memory_sharable: false }, { thread_count: 4 });
  expect(choice).toMatchObject({ shared: false, thread_count: 1 });
  expect(choice.reason).toContain('Document-Isolation-Policy');
});

test('without SIMD there is an error with a code', () => {
  expect(() => chooseBuild({ ...kEverything, simd: false }, {})).toThrow(
    expect.objectContaining({ code: 'backend_failed' }),
  );
});

test('this Node has SIMD, threads, and an exact relaxed dot product', () => {
  expect(probeCapabilities()).toEqual({
    simd: true,
    relaxed: true,
    relaxed_fault: undefined,
    threads: true,
  });
  expect(relaxedDotFault()).toBeUndefined();
});

const kAuto: GpuWanted = { device: 'auto', reference: false, build: undefined, header_only: false };

test.each<[string, Partial<GpuWanted>, boolean]>([
  ['auto', {}, true],
  ['webgpu', { device: 'webgpu' }, true],
  ['cpu', { device: 'cpu' }, false],
  ['a header', { header_only: true }, false],
  ['a header, forced', { header_only: true, device: 'webgpu' }, false],
  ['a build of the CPU', { build: 'simd' }, false],
  ['the reference kernels', { reference: true }, false],
])('the GPU is looked for or not: %s', (_what, wish, wanted) => {
  expect(wantsGpu({ ...kAuto, ...wish })).toBe(wanted);
});

test('webgpu and what only the CPU has exclude each other', () => {
  for (const wish of [{ build: 'relaxed' as const }, { reference: true }]) {
    expect(() => wantsGpu({ ...kAuto, device: 'webgpu', ...wish })).toThrow(
      expect.objectContaining({ code: 'invalid_argument' }),
    );
  }
});

test('the build for WebGPU has its own module, and says whether it was asked for', () => {
  const choice = gpuBuild('webgpu', 'it passed');
  expect(moduleFileName(choice)).toBe('nonstop-webgpu.wasm');
  expect(choice).toMatchObject({ backend: 'webgpu', thread_count: 1, shared: false });
  expect(choice.reason).toBe('WebGPU was asked for; it passed.');
  expect(gpuBuild('auto', 'it passed').reason).toBe('WebGPU: it passed.');
  expect(moduleFileName(chooseBuild(kEverything, {}))).toBe('nonstop-relaxed-mt.wasm');
});
