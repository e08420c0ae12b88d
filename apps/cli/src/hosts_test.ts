import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { expect, test } from 'vitest';
import { servedModel } from './hosts.js';
import { startServer } from './server.js';

test('Chromium is served the files of the model, and nothing else of their folder', async () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'hosts-'));
  const parts = ['m 1%-00001-of-00002.gguf', 'm 1%-00002-of-00002.gguf'];
  for (const name of [...parts, 'm.gguf', 'secret']) {
    fs.writeFileSync(path.join(folder, name), name);
  }
  const textOf = async (name: string, wanted: string) => {
    const model = servedModel({ kind: 'file', path: path.join(folder, name) });
    const server = await startServer({ port: 0, folders: {}, ...model });
    const url = new URL(encodeURIComponent(wanted), `${server.url}model/`);
    const response = await fetch(wanted === name ? server.url + model.path : url);
    const text = await response.text();
    await server.close();
    return response.ok ? text : response.status;
  };
  const [first = '', second = ''] = parts;
  expect(await textOf(first, first)).toBe(first);
  expect(await textOf(first, second)).toBe(second);
  expect(await textOf('m.gguf', 'm.gguf')).toBe('m.gguf');
  for (const other of ['secret', first]) expect(await textOf('m.gguf', other)).toBe(404);
  fs.rmSync(folder, { recursive: true });
});
