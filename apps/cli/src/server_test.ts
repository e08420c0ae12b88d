import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { parseRange, startServer, type RunningServer } from './server.js';

let folder = '';
let server: RunningServer;

beforeAll(async () => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'server-'));
  fs.mkdirSync(path.join(folder, 'public'));
  fs.writeFileSync(path.join(folder, 'secret'), 'secret');
  fs.writeFileSync(path.join(folder, 'public/index.html'), '<p>page');
  fs.writeFileSync(path.join(folder, 'model.gguf'), '0123456789');
  server = await startServer({
    port: 0,
    folders: { '/': path.join(folder, 'public') },
    files: { '/models/m.gguf': path.join(folder, 'model.gguf') },
    json: { '/models.json': [{ name: 'm' }] },
  });
});

afterAll(async () => {
  await server.close();
  fs.rmSync(folder, { recursive: true });
});

test('pages are isolated and have a strict policy', async () => {
  const response = await fetch(server.url);
  expect(await response.text()).toBe('<p>page');
  expect(response.headers.get('document-isolation-policy')).toBe('isolate-and-credentialless');
  expect(response.headers.get('cross-origin-opener-policy')).toBe('same-origin');
  const policy = response.headers.get('content-security-policy');
  expect(policy).toContain("script-src 'self' 'wasm-unsafe-eval';");
  expect(policy).not.toContain('unsafe-inline');
});

test('a range of a model', async () => {
  const url = `${server.url}models/m.gguf`;
  const part = await fetch(url, { headers: { range: 'bytes=3-5' } });
  expect(part.status).toBe(206);
  expect(part.headers.get('content-range')).toBe('bytes 3-5/10');
  expect(await part.text()).toBe('345');
  const past = await fetch(url, { headers: { range: 'bytes=10-' } });
  expect(past.status).toBe(416);
  expect((await fetch(url, { method: 'HEAD' })).headers.get('content-length')).toBe('10');
  expect(await (await fetch(`${server.url}models.json`)).json()).toEqual([{ name: 'm' }]);
});

test('ranges as HTTP defines them', () => {
  expect(parseRange(undefined, 10)).toBeUndefined();
  expect(parseRange('bytes=0-', 10)).toEqual({ start: 0, end: 9 });
  expect(parseRange('bytes=-4', 10)).toEqual({ start: 6, end: 9 });
  expect(parseRange('bytes=2-99', 10)).toEqual({ start: 2, end: 9 });
  expect(parseRange('bytes=0-1,3-4', 10)).toBeUndefined();
  expect(parseRange('bytes=10-11', 10)).toBe('unsatisfiable');
});

test('nothing outside the folders, and no other method', async () => {
  for (const pathname of ['..%2fsecret', '%2e%2e/secret', 'x/..%2f..%2fsecret', '%00', '%zz']) {
    expect((await fetch(server.url + pathname)).status).toBe(404);
  }
  expect((await fetch(server.url, { method: 'POST' })).status).toBe(405);
});

test('the URL names the address that is listened on', async () => {
  const { port, url } = server;
  expect(url).toBe(`http://127.0.0.1:${port}/`);
  const other = http.createServer((_request, response) => response.end('another program'));
  await new Promise<void>((resolve) => {
    other.once('error', () => resolve()); // a machine without IPv6
    other.listen(port, '::1', resolve);
  });
  expect(await (await fetch(url)).text()).toBe('<p>page');
  await new Promise((resolve) => other.close(resolve));
});

test('a port in use has the code busy', async () => {
  await expect(startServer({ port: server.port, folders: {}, files: {} })).rejects.toMatchObject({
    code: 'busy',
  });
});
