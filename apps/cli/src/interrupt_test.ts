import { expect, test } from 'vitest';
import { makeInterrupt } from './interrupt.js';

test('signals within 0.5 s of the first are one stop; a later one ends at once', () => {
  const log: string[] = [];
  let now_ms = 1000;
  const interrupt = makeInterrupt(
    () => log.push('stop'),
    () => log.push('end'),
    () => now_ms,
  );
  for (const later_ms of [1000, 1001, 1499]) {
    now_ms = later_ms;
    interrupt();
    expect(log).toEqual(['stop']);
  }
  now_ms = 1500;
  interrupt();
  expect(log).toEqual(['stop', 'end']);
});
