// What the package promises a program in Node, beyond what the command line shows of it.
import assert from 'node:assert/strict';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { kRoot, kTinyModel } from './support.mjs';

const { Engine } = await import(pathToFileURL(path.join(kRoot, 'web/dist/nonstop.mjs')).href);

test('a model that is no URL is an error with a code', async () => {
  await assert.rejects(Engine.load('models/m.gguf'), {
    code: 'invalid_argument',
    message: 'The model "models/m.gguf" is no URL.',
  });
});

// Workers that never answer: only the caller's side can end such a load.
const kSilentWorker = 'setInterval(() => {}, 1000);';
const kBusyWorker = `
  import { parentPort } from 'node:worker_threads';
  parentPort.on('message', ({ id, method }) => {
    parentPort.postMessage({ id, method, event: { loaded_bytes: 0, total_bytes: 1 } });
    for (;;);
  });
  parentPort.postMessage({ id: 0, hello: true });`;

function loadBy(script, options) {
  const workerUrl = `data:text/javascript,${encodeURIComponent(script)}`;
  return Engine.load({ kind: 'file', path: kTinyModel }, { ...options, workerUrl });
}

test('a stop ends a load whose worker does not start', async () => {
  const stop = new AbortController();
  const loading = loadBy(kSilentWorker, { signal: stop.signal });
  stop.abort();
  await assert.rejects(loading, { code: 'aborted', message: 'The caller asked to stop.' });
});

test('a stop ends a load whose worker is in a long step', async () => {
  const stop = new AbortController();
  const onProgress = () => stop.abort();
  const loading = loadBy(kBusyWorker, { signal: stop.signal, onProgress });
  await assert.rejects(loading, { code: 'aborted', message: 'The caller asked to stop.' });
});

test('a stop ends a load under way, and another load works', async () => {
  const stop = new AbortController();
  const source = { kind: 'file', path: kTinyModel };
  const onProgress = () => stop.abort();
  const loading = Engine.load(source, { signal: stop.signal, onProgress });
  await assert.rejects(loading, { code: 'aborted' });
  const engine = await Engine.load(source, { headerOnly: true });
  await engine.close();
});

describe('the tokenizer', () => {
  const text = 'a'.repeat(1_000_000);
  let engine;
  before(async () => {
    engine = await Engine.load({ kind: 'file', path: kTinyModel }, { headerOnly: true });
  });
  after(() => engine.close());

  test('pieces are the texts of the ids, one by one', async () => {
    const ids = await engine.tokenize('é 🦙 words');
    const pieces = await engine.pieces(ids);
    assert.equal(pieces.length, ids.length);
    for (const [i, id] of ids.entries()) {
      assert.equal(pieces[i], await engine.detokenize([id], true));
    }
    assert.deepEqual(await engine.pieces([]), []);
    await assert.rejects(engine.pieces([1, 999_999]), { code: 'invalid_argument' });
  });

  /** Asks, stops, and sees that the engine goes on. */
  async function stops(ask) {
    const stop = new AbortController();
    const asked = ask(stop.signal);
    stop.abort();
    await assert.rejects(asked, { code: 'aborted' });
    assert.deepEqual(await engine.pieces([97]), [await engine.detokenize([97], true)]);
  }

  test('a stop ends tokenize', () => stops((signal) => engine.tokenize(text, { signal })));

  test('a stop ends pieces', async () => {
    const ids = Array(1_000_000).fill(97);
    await stops((signal) => engine.pieces(ids, { signal }));
  });

  test('a stop from before ends both', async () => {
    const signal = AbortSignal.abort();
    const ids = Array(1_000_000).fill(97);
    await assert.rejects(engine.tokenize(text, { signal }), { code: 'aborted' });
    await assert.rejects(engine.pieces(ids, { signal }), { code: 'aborted' });
  });
});
