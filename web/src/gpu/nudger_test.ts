import { expect, test } from 'vitest';
import { Nudger } from './nudger.js';

/** A clock that moves with each pause; `step` settles when the code after it has run. */
function makeClock(step_ms: number) {
  let now_ms = 0;
  const clock = {
    now: () => now_ms,
    pause: async () => {
      now_ms += step_ms;
      await Promise.resolve();
    },
  };
  return { clock, now: () => now_ms };
}

async function settle(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve));
}

test('submits nothing but empty lists, until what is awaited has come', async () => {
  const { clock } = makeClock(0.25);
  const lists: unknown[] = [];
  const queue = { submit: (list: Iterable<GPUCommandBuffer>) => void lists.push([...list]) };
  const nudger = new Nudger(queue, () => lists.length < 5, clock);
  nudger.begin();
  await settle();
  expect(lists).toEqual([[], [], [], [], []]);
});

test('keeps its interval where pauses are shorter, and gives up after a while', async () => {
  const { clock, now } = makeClock(0.125);
  let count = 0;
  const nudger = new Nudger({ submit: () => void (count += 1) }, () => true, clock);
  nudger.begin();
  await settle();
  expect(count).toBe(99);
  expect(now()).toBe(25);
  nudger.begin();
  await settle();
  expect(count).toBe(198);
});

test('does not begin where nothing is awaited alone', async () => {
  const { clock, now } = makeClock(0.25);
  let count = 0;
  const nudger = new Nudger({ submit: () => void (count += 1) }, () => false, clock);
  nudger.begin();
  await settle();
  expect(count).toBe(0);
  expect(now()).toBe(0);
});
