// The types themselves are tested: what is promised, and what must not compile.
import { expect, test } from 'vitest';
import type { Calls, Method, RequestMessage, WorkerMessage } from '../worker/protocol.js';
import { EngineError } from '../wasm/error.js';
import { toGenerateParams, toOpenParams } from './options.js';
import type { Engine, GenerateChunk, GenerateOptions, GenerateResult, TopTokens } from './index.js';

type Equal<A, B> =
  (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
type Expect<T extends true> = T;

export type Checks = [
  Expect<Equal<ReturnType<Engine['score']>, Promise<TopTokens[]>>>,
  Expect<Equal<ReturnType<Engine['pieces']>, Promise<string[]>>>,
  Expect<Equal<GenerateResult['finish_reason'], 'stop' | 'length' | 'abort' | 'error'>>,
  Expect<Equal<GenerateChunk['token_id'], number | null>>,
  Expect<Equal<Exclude<RequestMessage['method'], 'cancel' | 'end'>, Method>>,
  Expect<Equal<keyof Calls, Method>>,
  Expect<Equal<Extract<WorkerMessage, { error: unknown }>['error']['code'], EngineError['code']>>,
];

// @ts-expect-error: a seed is a number
export const kWrongSeed: GenerateOptions = { prompt: 'x', seed: '1' };
// @ts-expect-error: undefined is not a value of an option
export const kWrongStop: GenerateOptions = { prompt: 'x', stop: undefined };
// @ts-expect-error: there is no such method
export const kWrongCall: RequestMessage = { id: 1, method: 'nope', params: {} };

test("a request has llama.cpp's defaults", () => {
  const params = toGenerateParams({ prompt: 'x', seed: 5, stop: 'END', logit_bias: { 7: -2 } });
  expect(params).toMatchObject({
    prompt: { kind: 'text', text: 'x' },
    temperature: 0.8,
    top_k: 40,
    top_p: 0.95,
    min_p: 0.05,
    repeat_penalty: 1,
    presence_penalty: 0,
    frequency_penalty: 0,
    penalty_last_n: 64,
    seed: 5,
    stop: ['END'],
    logit_bias: [{ token_id: 7, bias: -2 }],
  });
});

test('a relative URL, where there is no page, is refused', () => {
  expect(() => toOpenParams('m.gguf', {})).toThrow(
    expect.objectContaining({ code: 'invalid_argument', message: 'The model "m.gguf" is no URL.' }),
  );
});

test('exactly one kind of prompt', () => {
  expect(() => toGenerateParams({})).toThrow(/not \(0\) of them/);
  expect(() => toGenerateParams({ prompt: 'x', ids: [1] })).toThrow(/not \(2\) of them/);
});

test('seeds that a double cannot hold are refused', () => {
  for (const seed of [-1, 0.5, 2 ** 53, NaN]) {
    expect(() => toGenerateParams({ prompt: 'x', seed })).toThrow(
      expect.objectContaining({ code: 'invalid_argument' }),
    );
  }
});

test('a model is a URL, a Blob, Blobs or plain data', () => {
  const source = (model: Parameters<typeof toOpenParams>[0]) => toOpenParams(model, {}).source;
  const blob = new Blob([]);
  expect(source('https://h/m.gguf')).toEqual({ kind: 'url', url: 'https://h/m.gguf' });
  expect(source(blob)).toEqual({ kind: 'blobs', blobs: [blob] });
  expect(source([blob, blob])).toEqual({ kind: 'blobs', blobs: [blob, blob] });
  expect(source({ kind: 'file', path: '/m' })).toEqual({ kind: 'file', path: '/m' });
});
