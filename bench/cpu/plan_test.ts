import { expect, test } from 'vitest';
import type { BenchModel } from '../common/bench_model.js';
import { checkNames } from '../common/plan.js';
import { planCpu, type CpuPlanOptions } from './plan.js';

const kModel: BenchModel = {
  ...{ name: 'm', path: 'm.gguf', size_bytes: 300e6, weight_bytes_per_token: 290e6 },
  ...{ peers: 'all', extent: 'whole' },
  shapes: [{ type_id: 3, rows: 1536, columns: 576 }],
  attention: { layers: 30, query_heads: 9, kv_heads: 3, head_dim: 64, context_length: 8192 },
};
const kAll: CpuPlanOptions = {
  ...{ quick: false, peers: false, hosts: ['node', 'chromium'], threads: [1, 2] },
  ...{ builds: ['relaxed', 'simd'], only: [] },
};

function names(model: BenchModel, options: CpuPlanOptions): string[] {
  return planCpu(model, options).map(({ what }) => what);
}

test('all of the cases of a whole model, each on hosts and threads', () => {
  const plan = planCpu(kModel, kAll);
  expect(plan.map(({ what }) => what)).toEqual([
    ...['read', 'kernel-q4_1', 'kernel-q4_1-x64', 'kernel-attention-2048'],
    'kernel-attention-2048-x16',
    ...['decode-0', 'decode-512', 'decode-2048'],
    ...['prefill-32', 'prefill-64', 'prefill-430', 'prefill-2000'],
    ...['sequences-1', 'sequences-2', 'sequences-4', 'sequences-8', 'facts'],
  ]);
  const setups = (what: string) => plan.find((one) => one.what === what)?.setups ?? [];
  expect(setups('decode-512')).toHaveLength(4);
  // Both builds.
  expect(setups('decode-0')).toHaveLength(8);
  expect(setups('sequences-2').every(({ sequences }) => sequences === 8)).toBe(true);
});

test('kernels and reading go over a buffer of the size of the model, 96 MiB at least', () => {
  const bytes = (size_bytes: number) =>
    planCpu({ ...kModel, size_bytes }, kAll).flatMap(({ one }) =>
      one.kind === 'read' || (one.kind === 'matmul' && one.tokens === 1) ? [one.buffer_bytes] : [],
    );
  expect(bytes(300e6)).toEqual([300e6, 300e6]);
  expect(bytes(1e6)).toEqual([96 * 2 ** 20, 96 * 2 ** 20]);
});

test('cases that the context cannot hold are left out', () => {
  const small = { ...kModel, attention: { ...kModel.attention, context_length: 256 } };
  expect(names(small, kAll).filter((what) => /^(decode|prefill)/.test(what))).toEqual([
    ...['decode-0', 'prefill-32', 'prefill-64'],
  ]);
});

test('peers join the cases that they share with us, and only where they are asked for', () => {
  const plan = planCpu(kModel, { ...kAll, peers: true });
  const peers = (what: string) => {
    const found = plan.find((one) => one.what === what)?.setups ?? [];
    return found
      .filter(({ software }) => software !== 'nonstop')
      .map(({ software, weights, threads }) => `${software} ${weights} ${threads}`);
  };
  expect(peers('decode-0')).toHaveLength(12);
  expect(peers('prefill-64')).toEqual([
    ...['transformers.js q8 1', 'transformers.js q8 2'],
    ...['transformers.js fp32 1', 'transformers.js fp32 2'],
  ]);
  expect(peers('prefill-430')).toContain('llama.cpp same file 1');
  expect(peers('decode-512')).toEqual([]);
  const other = planCpu({ ...kModel, peers: 'same file' }, { ...kAll, peers: true });
  const setups = other.find(({ what }) => what === 'decode-0')?.setups ?? [];
  expect(setups.filter(({ weights }) => weights === 'Q8_0' || weights === 'q8')).toEqual([]);
  expect(setups.filter(({ weights }) => weights === 'same file')).toHaveLength(4);
});

test('names choose measurements by their beginning; a name that chooses nothing is refused', () => {
  expect(names(kModel, { ...kAll, only: ['kernel', 'prefill-430'] })).toEqual([
    ...['kernel-q4_1', 'kernel-q4_1-x64', 'kernel-attention-2048', 'kernel-attention-2048-x16'],
    'prefill-430',
  ]);
  expect(names(kModel, { ...kAll, only: ['decode-0'] })).toEqual(['decode-0']);
  const plan = planCpu(kModel, kAll);
  expect(() => checkNames(['decode', 'prefil'], plan)).toThrow(/\(prefil\) is none/);
  expect(() => checkNames(['decode', 'read'], plan)).not.toThrow();
});

test('quick is a part of the whole, on the same subjects', () => {
  const whole = names(kModel, kAll);
  const quick = names(kModel, { ...kAll, quick: true });
  expect(quick.length).toBeLessThan(whole.length);
  expect(quick.every((what) => whole.includes(what))).toBe(true);
});
