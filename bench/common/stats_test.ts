import { expect, test } from 'vitest';
import { median, pairedRatio, summarize } from './stats.js';

test('the median of odd and even counts, whatever their order', () => {
  expect(median([9, 1, 5])).toBe(5);
  expect(median([10, 1, 2, 4])).toBe(3);
  expect(median([7])).toBe(7);
  expect(median([])).toBeNaN();
});

test('a summary keeps the spread and the samples in the order of the rounds', () => {
  const samples = [103, 99, 250, 101, 100];
  expect(summarize(samples)).toEqual({ median: 101, min: 99, max: 250, samples });
  expect(samples).toEqual([103, 99, 250, 101, 100]);
});

test('a ratio is taken round by round, so that a slow spell drops out', () => {
  // Both are half as fast in round 2; the ratio of what is measured is 2 throughout.
  const ours = new Map([
    [0, 200],
    [1, 202],
    [2, 100],
  ]);
  const theirs = new Map([
    [0, 100],
    [1, 101],
    [2, 50],
  ]);
  expect(pairedRatio(ours, theirs)).toEqual({ median: 2, min: 2, max: 2, samples: [2, 2, 2] });
});

test('rounds that only one has, and a base of zero, do not count', () => {
  const ours = new Map([
    [0, 10],
    [1, 30],
    [2, 50],
  ]);
  const theirs = new Map([
    [1, 10],
    [2, 0],
    [3, 5],
  ]);
  expect(pairedRatio(ours, theirs)).toEqual({ median: 3, min: 3, max: 3, samples: [3] });
  expect(pairedRatio(ours, new Map([[7, 1]]))).toBeUndefined();
});
