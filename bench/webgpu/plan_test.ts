import { expect, test } from 'vitest';
import type { BenchModel } from '../common/bench_model.js';
import { planWebgpu, webgpuContext, type WebgpuPlanOptions } from './plan.js';

const kModel: BenchModel = {
  ...{ name: 'm', path: 'm.gguf', size_bytes: 300e6, weight_bytes_per_token: 290e6 },
  ...{ peers: 'all', extent: 'whole', shapes: [] },
  attention: { layers: 30, query_heads: 9, kv_heads: 3, head_dim: 64, context_length: 8192 },
};
const kAll: WebgpuPlanOptions = {
  ...{ quick: false, peers: false, hosts: ['chromium'], only: [], tokens: undefined },
};

function names(options: WebgpuPlanOptions): string[] {
  return planWebgpu(kModel, options).map(({ what }) => what);
}

test('all of the cases, on the one subject of a host', () => {
  const plan = planWebgpu(kModel, kAll);
  expect(plan.map(({ what }) => what)).toEqual([
    'read',
    ...['decode-0', 'decode-128', 'decode-2048'],
    ...['prefill-64', 'prefill-430', 'prefill-2000'],
    ...['first-token-64', 'first-token-64-cold'],
    ...['sequences-1', 'sequences-2', 'sequences-4', 'sequences-6', 'sequences-8'],
    ...['load', 'facts'],
  ]);
  const setups = plan.flatMap((one) => one.setups);
  expect(setups.every(({ device, threads }) => device === 'webgpu' && threads === 1)).toBe(true);
  expect(plan.every((one) => one.setups.length === 1)).toBe(true);
});

test('several replies at once are asked of an engine for eight, also the one reply beside them', () => {
  const together = planWebgpu(kModel, { ...kAll, only: ['sequences'] });
  expect(together.map(({ one }) => one)).toEqual(
    [1, 2, 4, 6, 8].map((count) => ({ kind: 'together', count, tokens: 70 })),
  );
  expect(together.every(({ setups }) => setups[0]?.sequences === 8)).toBe(true);
});

test('the length of replies can be chosen; the context follows', () => {
  const plan = planWebgpu(kModel, { ...kAll, tokens: 300 });
  const tokens = plan.flatMap(({ one }) =>
    one.kind === 'decode' || one.kind === 'together' ? [one.tokens] : [],
  );
  expect(new Set(tokens)).toEqual(new Set([300]));
  // The longest context, the reply, its first token and one to spare.
  expect(webgpuContext(kModel, 300)).toBe(2048 + 300 + 2);
  expect(names({ ...kAll, tokens: 300 })).toContain('decode-2048');
});

test('cases that the context cannot hold are left out', () => {
  const small = { ...kModel, attention: { ...kModel.attention, context_length: 256 } };
  const found = planWebgpu(small, kAll).map(({ what }) => what);
  expect(found).toContain('decode-0');
  expect(found).toContain('prefill-64');
  // 128 + 128 + 1 tokens.
  expect(found).not.toContain('decode-128');
  expect(found).not.toContain('prefill-430');
});

test('peers compute on the GPU, in the cases that they share with us', () => {
  const plan = planWebgpu(kModel, { ...kAll, peers: true });
  const peers = (what: string) => {
    const found = plan.find((one) => one.what === what)?.setups ?? [];
    return found
      .filter(({ software }) => software !== 'nonstop')
      .map(({ software, weights, device }) => `${software} ${weights} ${device}`);
  };
  const [wllama, transformers] = ['wllama same file webgpu', 'transformers.js fp32 webgpu'];
  expect(peers('decode-128')).toEqual([wllama, transformers]);
  expect(peers('first-token-64')).toEqual([wllama, transformers]);
  expect(peers('prefill-430')).toEqual([wllama]);
  expect(peers('decode-0')).toEqual([]);
});

test('quick is a part of the whole', () => {
  const quick = names({ ...kAll, quick: true });
  expect(quick.length).toBeLessThan(names(kAll).length);
  expect(names(kAll)).toEqual(expect.arrayContaining(quick));
});
