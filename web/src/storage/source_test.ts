import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { expect, test } from 'vitest';
import { openSource, splitFileName, type ModelSource } from './source.js';

const signal = new AbortController().signal;

async function readAll(source: ModelSource, wanted_bytes: number): Promise<number[]> {
  const reader = await openSource(source, 0, 1, signal);
  const memory = new Uint8Array(64);
  let size_bytes = 0;
  for (;;) {
    const at = size_bytes;
    const count = await reader.read(wanted_bytes, (size) => memory.subarray(at, at + size));
    if (count === 0) break;
    expect(count).toBeLessThanOrEqual(wanted_bytes);
    size_bytes += count;
  }
  await reader.close();
  return [...memory.subarray(0, size_bytes)];
}

test('a blob comes in pieces of the size that is wanted', async () => {
  const blob = new Blob([Uint8Array.of(1, 2, 3, 4, 5)]);
  expect(await readAll({ kind: 'blobs', blobs: [blob] }, 2)).toEqual([1, 2, 3, 4, 5]);
});

test('a file is read into place, an empty one at once', async () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'source-'));
  const file = path.join(folder, 'a.gguf');
  fs.writeFileSync(file, Uint8Array.of(9, 8, 7));
  expect(await readAll({ kind: 'file', path: file }, 2)).toEqual([9, 8, 7]);
  fs.writeFileSync(file, '');
  expect(await readAll({ kind: 'file', path: file }, 2)).toEqual([]);
  await expect(readAll({ kind: 'file', path: folder }, 2)).rejects.toMatchObject({
    code: 'not_found',
  });
  fs.rmSync(folder, { recursive: true });
  await expect(readAll({ kind: 'file', path: file }, 2)).rejects.toMatchObject({
    code: 'not_found',
    message: `There is no file "${file}".`,
  });
});

test('the names of a split model', () => {
  expect(splitFileName('/m/x-00001-of-00003.gguf', 2, 3)).toBe('/m/x-00003-of-00003.gguf');
  expect(splitFileName('https://h/x-00001-of-00012.gguf?a=b', 9, 12)).toBe(
    'https://h/x-00010-of-00012.gguf?a=b',
  );
  const wrong = ['x.gguf', 'x-00002-of-00003.gguf', 'x-00001-of-00002.gguf'];
  for (const name of wrong) {
    expect(() => splitFileName(name, 1, 3)).toThrow(
      expect.objectContaining({ code: 'invalid_argument' }),
    );
  }
});
