import { expect, test } from 'vitest';
import type { Row } from './results.js';
import { formatCosts, formatNumber, formatRatios, formatRows, formatTable } from './table.js';

test('columns are as wide as their widest cell, numbers are to the right', () => {
  const rows = [
    ['decode', '61.5', ''],
    ['prefill-2000', '7.25', '38 %'],
  ];
  expect(formatTable(['what', 'tok/s', 'of read'], rows)).toBe(
    [
      'what          tok/s  of read',
      '------------  -----  -------',
      'decode         61.5',
      'prefill-2000   7.25     38 %',
    ].join('\n'),
  );
});

test('numbers have three digits, or all before the point', () => {
  expect([0, 0.456, 9.994, 10.04, 99.94, 100.4, 12345].map(formatNumber)).toEqual([
    '0.00',
    '0.46',
    '9.99',
    '10.0',
    '99.9',
    '100',
    '12345',
  ]);
});

const kRow: Row = {
  ...{ software: 'nonstop', host: 'chromium', threads: 1, build: 'relaxed', weights: '' },
  ...{ sequences: 1, kernels: false, device: 'cpu', model: 'm', what: 'decode-0', unit: 'GB/s' },
  ...{ median: 6.25, min: 5, max: 7, samples: [5, 6.25, 7], mean_kl: 0.00312 },
  ratios: [
    { to: 'read', median: 0.5, min: 0.4, max: 0.6 },
    { to: 'best wllama', median: 2.5, min: 2, max: 3 },
  ],
};

test('a row shows its spread, its share of reading and its KL', () => {
  const [, , line] = formatRows([kRow]).split('\n');
  expect(line?.split(/ {2,}/)).toEqual([
    ...['m', 'decode-0', 'nonstop relaxed in chromium, 1 thread', '6.25', '5.00', '7.00', 'GB/s'],
    ...['50 %', '0.0031'],
  ]);
});

test('the other ratios have a table of their own, which is empty without any', () => {
  const lines = formatRatios([kRow]).split('\n');
  expect(lines).toHaveLength(3);
  expect(lines[2]?.split(/ {2,}/)).toEqual([
    ...['m', 'decode-0', 'GB/s', 'nonstop relaxed in chromium, 1 thread', 'the best wllama'],
    ...['2.50×', '2.00×', '3.00×'],
  ]);
  expect(formatRatios([{ ...kRow, ratios: [] }])).toBe('');
});

test('what a token costs has a line for each case, in a table of its own', () => {
  const cost: Row = { ...kRow, device: 'webgpu', build: 'default', ratios: [] };
  const rows: Row[] = [
    { ...cost, unit: 'dispatches/token', median: 154 },
    { ...cost, unit: 'waits/token', median: 0.25 },
    { ...cost, what: 'decode-128', unit: 'dispatches/token', median: 155 },
    kRow,
  ];
  const [head, , ...lines] = formatCosts(rows).split('\n');
  expect(head?.split(/ {2,}/)).toEqual([
    ...['model', 'what', 'subject', 'dispatches/token', 'waits/token'],
  ]);
  expect(lines.map((line) => line.split(/ {2,}/))).toEqual([
    ['m', 'decode-0', 'nonstop webgpu in chromium', '154', '0.25'],
    ['m', 'decode-128', 'nonstop webgpu in chromium', '155'],
  ]);
  expect(formatRows(rows).split('\n')).toHaveLength(3);
  expect(formatCosts([kRow])).toBe('');
});
