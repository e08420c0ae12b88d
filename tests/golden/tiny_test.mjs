// The tiny random checkpoints of every architecture and tensor type through the whole program, against
// llama.cpp's logits (tests/data/tiny/*.json, f32 throughout).
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import * as golden from './compare.mjs';

const full = process.env.NONSTOP_FULL === '1';
const folder = path.join(golden.kRoot, 'tests/data/tiny');
const names = fs
  .readdirSync(folder)
  .filter((name) => name.endsWith('.json'))
  .map((name) => name.slice(0, -5));

const read = (name) => JSON.parse(fs.readFileSync(path.join(folder, `${name}.json`), 'utf8'));

const compareTiny = (file, reference, options, node) =>
  golden.compareTiny(path.join(folder, file), reference, { options, node });

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
