// The tiny random checkpoints of every architecture and tensor type through the whole program, against
// llama.cpp's logits (tests/data/tiny/*.json, f32 throughout).
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import * as golden from './compare.mjs';

const full = process.env.NONSTOP_FULL === '1';
const folder = path.join(golden.kRoot, 'tests/data/tiny');
const kLogitBound = 2e-3;
const names = fs
  .readdirSync(folder)
  .filter((name) => name.endsWith('.json'))
  .map((name) => name.slice(0, -5));

const read = (name) => JSON.parse(fs.readFileSync(path.join(folder, `${name}.json`), 'utf8'));

/** A case's logits after each position, as steps of a continuation of its first id. */
async function compareTiny(file, reference, options, node) {
  const cases = reference.cases.filter((one) => one.n_ctx === 256);
  const runs = await golden.scoreCases({
    model: path.join(folder, file),
    cases: cases.map(({ ids }) => ({ ids: ids.slice(0, 1), continue: [...ids.slice(1), 0] })),
    options: ['--activations', 'f32', '--kv', 'f32', '--context', '256', ...options],
    node,
  });
  let compared = 0;
  cases.forEach((one, c) =>
    one.steps.forEach((want) => {
      const got = runs[c][want.pos];
      want.ids.forEach((id, i) => {
        const at = got.top_ids.indexOf(id);
        const diff = at < 0 ? Infinity : Math.abs(got.top_logits[at] - want.logits[i]);
        assert.ok(diff <= kLogitBound, `position ${want.pos}, id ${id}: differs by ${diff}`);
        compared += 1;
      });
    }),
  );
  assert.ok(compared > 0);
}

assert.ok(names.length > 20);
for (const name of names) {
  test(`${name}`, () => compareTiny(`${name}.gguf`, read(name), []));
  if (!full) continue;
  test(`${name}, plain SIMD`, () => compareTiny(`${name}.gguf`, read(name), ['--build', 'simd']));
  test(`${name}, two threads`, () => compareTiny(`${name}.gguf`, read(name), ['--threads', '2']));
  test(`${name}, Node 20`, () => compareTiny(`${name}.gguf`, read(name), [], golden.kNode20));
}

test('a model in three files, and GGUF version 2, equal the one in one file', async () => {
  const reference = read('type_q4_0');
  await compareTiny('split-00001-of-00003.gguf', reference, []);
  await compareTiny('version2.gguf', reference, []);
});
