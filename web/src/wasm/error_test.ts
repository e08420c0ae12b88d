import { expect, test } from 'vitest';
import {
  EngineError,
  errorCodeName,
  fromErrorRecord,
  toEngineError,
  toErrorRecord,
} from './error.js';

test('a code survives the way through another thread', () => {
  const error = new EngineError('context_overflow', 'The prompt (9) does not fit.').with(
    'Request 3',
  );
  const record: unknown = structuredClone(toErrorRecord(error));
  expect(record).toEqual({
    code: 'context_overflow',
    message: 'Request 3: The prompt (9) does not fit.',
  });
  expect(fromErrorRecord(toErrorRecord(error))).toMatchObject(toErrorRecord(error));
});

test('numbers of the engine are named; unknown ones are internal', () => {
  expect(errorCodeName(3)).toBe('not_gguf');
  expect(errorCodeName(25)).toBe('wrong_state');
  expect(errorCodeName(0)).toBe('internal');
  expect(errorCodeName(999)).toBe('internal');
});

test('aborts and timeouts of a signal have codes', () => {
  const stop = new AbortController();
  stop.abort();
  expect(toEngineError(stop.signal.reason).code).toBe('aborted');
  expect(toEngineError(new DOMException('late', 'TimeoutError')).code).toBe('timeout');
  expect(toEngineError(new TypeError('x')).code).toBe('internal');
  expect(toEngineError('text').code).toBe('internal');
});

test('a message is one printable line, whatever it repeats', () => {
  const hostile = 'a\x1b[2J\r\nb\u009b31m\u202etxt\u2028\ud800 é 🦙';
  const error = new EngineError('template_error', `It says (${hostile}).`).with('A\tB');
  expect(error.message).toBe(
    'A\\u0009B: It says (a\\u001b[2J\\u000d\\nb\\u009b31m\\u202etxt\\u2028\\ud800 é 🦙).',
  );
  expect(fromErrorRecord(toErrorRecord(error)).message).toBe(error.message);
});
