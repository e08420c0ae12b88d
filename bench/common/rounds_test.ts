import { expect, test } from 'vitest';
import type { Case, Sample, Setup } from './cases.js';
import type { Measurement } from './plan.js';
import { TimeLeft } from './progress.js';
import { takeSamples, type RoundsOptions, type Step } from './rounds.js';

function setup(threads: number): Setup {
  return {
    ...{ software: 'nonstop', host: 'node', build: 'relaxed', weights: '' },
    ...{ threads, sequences: 1, kernels: false, device: 'cpu' },
  };
}

const kDecode: Case = { kind: 'decode', context: 512, tokens: 4 };
const kPrefill: Case = { kind: 'prefill', tokens: 430, repeats: 1 };
const kFacts: Case = { kind: 'facts' };

/** Runs with subjects that write down what they are asked and answer by `answer`. */
async function record(
  measurements: Measurement[],
  answer: (one: Case, threads: number) => Promise<Sample>,
  more: Partial<RoundsOptions> = {},
) {
  const log: string[] = [];
  const collected = await takeSamples(measurements, {
    round_count: 2,
    signal: new AbortController().signal,
    onStep: () => {},
    start: async ({ threads }) => ({
      run: (one) => {
        log.push(`${one.kind} ${threads}`);
        return answer(one, threads);
      },
      close: async () => void log.push(`close ${threads}`),
    }),
    ...more,
  });
  return { log, ...collected };
}

test('subjects take turns within a measurement, measurements within a round; facts come once', async () => {
  const setups = [setup(1), setup(2)];
  const { log, series, failures } = await record(
    [
      { what: 'decode-512', one: kDecode, setups },
      { what: 'prefill-430', one: kPrefill, setups: [setup(1)] },
      { what: 'facts', one: kFacts, setups: [setup(1)] },
    ],
    async (_, threads) => ({ 'tok/s': 10 * threads }),
  );
  const round = ['decode 1', 'decode 2', 'prefill 1'];
  expect(log).toEqual([...round, ...round, 'facts 1', 'close 1', 'close 2']);
  expect(failures).toEqual([]);
  expect(series.map(({ what, setup: { threads } }) => `${what} ${threads}`)).toEqual([
    ...['decode-512 1', 'decode-512 2', 'prefill-430 1', 'facts 1'],
  ]);
  expect([...(series[1]?.values ?? [])]).toEqual([
    [0, 20],
    [1, 20],
  ]);
});

test('a case that fails is noted once and left out; the others go on', async () => {
  const { log, failures, series } = await record(
    [
      { what: 'decode-512', one: kDecode, setups: [setup(1), setup(2)] },
      { what: 'prefill-430', one: kPrefill, setups: [setup(2)] },
    ],
    async (one, threads) => {
      if (one.kind === 'decode' && threads === 2) throw new Error('It broke.');
      return { 'tok/s': 5 };
    },
  );
  expect(failures).toEqual([{ what: 'decode-512', setup: setup(2), message: 'It broke.' }]);
  expect(log.filter((line) => line === 'decode 2')).toHaveLength(1);
  expect(log.filter((line) => line === 'prefill 2')).toHaveLength(2);
  expect(series).toHaveLength(2);
});

test('a sample that is no number is a failure', async () => {
  const { failures } = await record(
    [{ what: 'decode-512', one: kDecode, setups: [setup(1)] }],
    async () => ({ 'tok/s': NaN }),
  );
  expect(failures.map(({ message }) => message)).toEqual(['The sample is (NaN) tok/s.']);
});

test('a subject that does not start is noted once, and asked nothing', async () => {
  const { log, failures } = await record(
    [{ what: 'decode-512', one: kDecode, setups: [setup(1)] }],
    async () => ({ 'tok/s': 1 }),
    { start: () => Promise.reject(new Error('No such file.')) },
  );
  expect(failures.map(({ what, message }) => [what, message])).toEqual([
    ['start', 'No such file.'],
  ]);
  expect(log).toEqual([]);
});

test('a stop keeps the samples that there are, and closes the subjects', async () => {
  const stop = new AbortController();
  const { log, series, failures } = await record(
    [{ what: 'decode-512', one: kDecode, setups: [setup(1), setup(2)] }],
    (_, threads) => {
      if (threads === 1) return Promise.resolve({ 'tok/s': 7 });
      stop.abort();
      return new Promise(() => {});
    },
    { signal: stop.signal },
  );
  expect(series.map(({ values }) => [...values])).toEqual([[[0, 7]]]);
  expect(failures).toEqual([]);
  expect(log.slice(-2)).toEqual(['close 1', 'close 2']);
});

test('time left: as long as last time, else the average', () => {
  const step = (what: string): Step => ({ what, setup: setup(1), round: 0 });
  const left = new TimeLeft();
  expect(left.estimate([step('a')])).toBeUndefined();
  left.note(step('a'), 2);
  left.note(step('b'), 6);
  expect(left.estimate([step('a'), step('b'), step('c')])).toBe(2 + 6 + 4);
  left.note(step('a'), 3);
  expect(left.estimate([step('a')])).toBe(3);
});

test('a subject that fails while it gets ready is closed before the others are measured', async () => {
  const { log, failures } = await record(
    [{ what: 'decode-0', one: { ...kDecode, context: 0 }, setups: [setup(1), setup(2)] }],
    async (_, threads) => {
      if (threads === 1) throw new Error('It broke.');
      return { 'tok/s': 5 };
    },
  );
  expect(failures).toEqual([{ what: 'start', setup: setup(1), message: 'It broke.' }]);
  expect(log).toEqual(['decode 1', 'close 1', 'decode 2', 'decode 2', 'decode 2', 'close 2']);
});
