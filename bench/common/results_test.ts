import { expect, test } from 'vitest';
import type { Setup, Unit } from './cases.js';
import type { BenchModel } from './bench_model.js';
import { makeRows } from './results.js';
import type { Series } from './rounds.js';

const kModel: BenchModel = {
  ...{ name: 'm', path: 'm.gguf', size_bytes: 100e6, weight_bytes_per_token: 0.1e9 },
  ...{ shapes: [], peers: 'all', extent: 'whole' },
  attention: { layers: 1, query_heads: 1, kv_heads: 1, head_dim: 64, context_length: 4096 },
};
const kOurs: Setup = {
  ...{ software: 'nonstop', host: 'chromium', threads: 1, build: 'relaxed', weights: '' },
  ...{ sequences: 1, kernels: false, device: 'cpu' },
};
const kPeer: Setup = { ...kOurs, software: 'wllama', build: 'default', weights: 'same file' };

function series(
  what: string,
  setup: Partial<Setup>,
  values: number[],
  unit: Unit = 'tok/s',
): Series {
  const base = setup.software === undefined ? kOurs : kPeer;
  return { what, unit, setup: { ...base, ...setup }, values: new Map(values.entries()) };
}

function ratios(list: Series[], index = 0): Record<string, number> {
  const row = makeRows(kModel, list, () => undefined)[index];
  return Object.fromEntries((row?.ratios ?? []).map(({ to, median }) => [to, median]));
}

test('decoding becomes bytes of weights, and a share of reading in the same round', () => {
  const rows = makeRows(
    kModel,
    [
      series('read', { kernels: true }, [10, 20, 10], 'GB/s'),
      series('decode-0', {}, [50, 100, 40]),
    ],
    () => undefined,
  );
  const bandwidth = rows.find(({ what, unit }) => what === 'decode-0' && unit === 'GB/s');
  expect(bandwidth).toMatchObject({ median: 5, min: 4, max: 10 });
  // 5 of 10, 10 of 20, 4 of 10.
  expect(bandwidth?.ratios).toEqual([{ to: 'read', median: 0.5, min: 0.4, max: 0.5 }]);
});

test('reading is taken with as many threads and on the same host', () => {
  const list = [
    series('decode-0', { threads: 2 }, [100]),
    series('read', { kernels: true }, [10], 'GB/s'),
    series('read', { kernels: true, threads: 2, host: 'node' }, [1], 'GB/s'),
  ];
  expect(ratios(list, 1)).toEqual({});
  expect(ratios([...list, series('read', { kernels: true, threads: 2 }, [20], 'GB/s')], 1)).toEqual(
    {
      read: 0.5,
    },
  );
});

test('contexts, sequences, the plain build and memory have their bases', () => {
  expect(ratios([series('decode-2048', {}, [30]), series('decode-0', {}, [60])])).toEqual({
    'decode-0': 0.5,
  });
  const eight = { sequences: 8 };
  expect(ratios([series('sequences-8', eight, [300]), series('sequences-1', eight, [60])])).toEqual(
    { 'sequences-1': 5 },
  );
  expect(
    ratios([series('prefill-430', { build: 'simd' }, [90]), series('prefill-430', {}, [120])]),
  ).toEqual({ relaxed: 0.75 });
  const facts = [series('facts', {}, [100], 'MB'), series('facts', {}, [200], 'MB bound')];
  expect(ratios(facts)).toEqual({ bound: 0.5 });
});

test('peers on as many threads, each by name, and the best of each program', () => {
  const wllama = { software: 'wllama' } as const;
  const list = [
    series('decode-0', {}, [100]),
    series('decode-0', wllama, [50]),
    series('decode-0', { ...wllama, weights: 'Q8_0' }, [80]),
    series('decode-0', { ...wllama, threads: 2 }, [200]),
    series('decode-0', { software: 'llama.cpp', host: 'native' }, [25]),
  ];
  expect(ratios(list)).toEqual({
    'wllama same file in chromium, 1 thread': 2,
    'wllama Q8_0 in chromium, 1 thread': 1.25,
    'llama.cpp same file, 1 thread': 4,
    'best wllama': 1.25,
    'best llama.cpp': 4,
  });
  expect(ratios(list, 2)).toEqual({});
  // The build that is only compared with the other one has no peers.
  const simd = series('decode-0', { build: 'simd' }, [90]);
  expect(ratios([simd, ...list])).toEqual({ relaxed: 0.9 });
});

test('with two threads: peers on two, native llama.cpp on one as well', () => {
  const list = [
    series('prefill-430', { threads: 2 }, [100]),
    series('prefill-430', { software: 'wllama' }, [50]),
    series('prefill-430', { software: 'wllama', threads: 2 }, [40]),
    series('prefill-430', { software: 'llama.cpp', host: 'native' }, [10]),
    series('prefill-430', { software: 'llama.cpp', host: 'native', threads: 2 }, [20]),
  ];
  expect(ratios(list)).toEqual({
    'wllama same file in chromium, 2 threads': 2.5,
    'llama.cpp same file, 1 thread': 10,
    'llama.cpp same file, 2 threads': 5,
    'best wllama': 2,
    'best llama.cpp': 5,
  });
});

test('a peer has the KL of its weights', () => {
  const quality = (_: string, { weights }: Setup) => (weights === 'Q4_0' ? 0.02 : undefined);
  const list = [
    series('decode-0', { software: 'wllama', weights: 'Q4_0' }, [1]),
    series('decode-0', {}, [1]),
  ];
  expect(
    makeRows(kModel, list, quality)
      .map(({ mean_kl }) => mean_kl)
      .slice(0, 2),
  ).toEqual([0.02, null]);
});

test('on the GPU: replies at once against one, reading on the same host, peers on the GPU too', () => {
  const gpu = { ...kOurs, device: 'webgpu', build: 'default' } as const;
  const eight = { ...gpu, sequences: 8 };
  const ms = [series('sequences-6', eight, [900], 'ms'), series('sequences-1', eight, [300], 'ms')];
  expect(ratios(ms)).toEqual({ 'sequences-1': 3 });
  const list = [
    series('decode-128', gpu, [1000]),
    series('read', { ...gpu, kernels: true }, [200], 'GB/s'),
    series('decode-128', { ...kPeer, device: 'webgpu' }, [50]),
    series('decode-128', kPeer, [400]),
  ];
  expect(ratios(list)).toEqual({ 'wllama same file webgpu in chromium': 20, 'best wllama': 20 });
  // 0.1 GB a token.
  expect(ratios(list, 1)).toEqual({ read: 0.5 });
});
