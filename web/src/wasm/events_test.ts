import { expect, test } from 'vitest';
import { decodeEvents } from './events.js';
import { LinearMemory } from './memory.js';

// Records written by hand from abi.h, word by word, so that a wrong offset shows.
function memoryWith(words: number[], at = 16): LinearMemory {
  const wasm = new WebAssembly.Memory({ initial: 1 });
  new Uint32Array(wasm.buffer, at, words.length).set(words);
  return new LinearMemory(wasm);
}

const float = (value: number) => new Uint32Array(new Float32Array([value]).buffer)[0] ?? 0;
const double = (value: number) => [...new Uint32Array(new Float64Array([value]).buffer)];
const text4 = (text: string) => new Uint32Array(new TextEncoder().encode(text).buffer)[0] ?? 0;

test('a token with two alternatives and text, then its finish', () => {
  const token = [
    ...[1, 64, 7, 504, 0, 2, 4, 0],
    ...[504, float(34.5), float(-0.0625), 13, float(-1.5), float(-4.25)],
    ...[text4('"Hi"'), 0],
  ];
  const finish = [
    ...[2, 56, 7, 1, 15, 3, 24, 0],
    ...[...double(1000), ...double(1250.5), ...double(460000)],
  ];
  const events = decodeEvents(memoryWith([...token, ...finish]), 16, 64 + 56);
  expect(events).toEqual([
    {
      kind: 'token',
      request_id: 7,
      token_id: 504,
      index: 0,
      text: '"Hi"',
      is_end: false,
      top: { top_ids: [504, 13], top_logits: [34.5, -1.5], top_logprobs: [-0.0625, -4.25] },
    },
    {
      kind: 'finish',
      request_id: 7,
      reason: 'length',
      text: '',
      prompt_count: 15,
      cached_count: 3,
      generated_count: 24,
      prefill_us: 1000,
      first_token_us: 1250.5,
      decode_us: 460000,
    },
  ]);
});

test('an error keeps its code; unknown records are skipped', () => {
  const unknown = [99, 16, 1, 2];
  const error = [3, 32, 0, 15, 4, 0, text4('full'), 0];
  const events = decodeEvents(memoryWith([...unknown, ...error]), 16, 48);
  expect(events).toEqual([
    { kind: 'error', request_id: 0, error: { code: 'out_of_memory', message: 'full' } },
  ]);
});

test('a record that claims more bytes than there are is refused', () => {
  expect(() => decodeEvents(memoryWith([1, 128, 1, 1]), 16, 16)).toThrow(/wrong size \(128\)/);
  expect(() => decodeEvents(memoryWith([1, 0, 1, 1]), 16, 16)).toThrow(/wrong size \(0\)/);
});
