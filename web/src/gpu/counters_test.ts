import { expect, test } from 'vitest';
import { GpuCounter, perToken } from './counters.js';

test('what is under way for the next token is not counted for this one', () => {
  const counter = new GpuCounter();
  counter.addUpload();
  counter.addSubmit(1, 150, 4096);
  counter.endTicket(1);
  const first = counter.counts;
  expect(first).toEqual({
    dispatches: 150,
    submits: 1,
    waits: 1,
    uploads: 1,
    readback_bytes: 4096,
  });
  for (const ticket of [2, 3, 4]) {
    counter.addSubmit(ticket, 154, 4);
    counter.endTicket(ticket);
  }
  counter.addSubmit(5, 154, 4);
  expect(perToken(first, counter.counts, 3)).toEqual({
    dispatches: 154,
    submits: 1,
    waits: 1,
    uploads: 0,
    readback_bytes: 4,
  });
});

test('a GPU that still has work was not waited for', () => {
  const counter = new GpuCounter();
  counter.addSubmit(1, 1, 4);
  counter.addSubmit(2, 1, 4);
  counter.endTicket(1);
  expect(counter.counts.waits).toBe(0);
  counter.endTicket(2);
  expect(counter.counts.waits).toBe(1);
});

test('a submission without read-backs ends with the next', () => {
  const counter = new GpuCounter();
  counter.addSubmit(1, 10, 0);
  counter.addSubmit(2, 20, 4);
  counter.endTicket(2);
  expect(counter.counts).toMatchObject({ submits: 2, dispatches: 30 });
});

test('one token alone has no share', () => {
  const counter = new GpuCounter();
  expect(perToken(counter.counts, counter.counts, 0)).toBeNull();
});
