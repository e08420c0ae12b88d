import fs from 'node:fs';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { cacheFolder, downloadModel, splitUrls } from './download.js';

const kBody = Buffer.from(Uint8Array.from({ length: 200_000 }, (_, i) => (i * 13) & 0xff));
kBody.write('GGUF');
const options = { signal: new AbortController().signal, onProgress: () => {} };
let folder = '';
let server: http.Server;
let ranges: (string | undefined)[] = [];

beforeEach(async () => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'download-'));
  ranges = [];
  server = http.createServer((request, response) => {
    ranges.push(request.headers.range);
    const wanted = Number(/^bytes=(\d+)-$/.exec(request.headers.range ?? '')?.[1] ?? 0);
    if (wanted >= kBody.length) return void response.writeHead(416).end();
    const range = { 'content-range': `bytes ${wanted}-${kBody.length - 1}/${kBody.length}` };
    response.writeHead(wanted > 0 ? 206 : 200, {
      etag: '"a"',
      'content-length': kBody.length - wanted,
      ...(wanted > 0 ? range : {}),
    });
    response.end(kBody.subarray(wanted));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
});

afterEach(() => {
  server.close();
  server.closeAllConnections();
  fs.rmSync(folder, { recursive: true, force: true });
});

const url = () => `http://127.0.0.1:${(server.address() as AddressInfo).port}/a/model.gguf`;

test('a model is downloaded once, and nothing else stays behind', async () => {
  const file = await downloadModel(url(), folder, options);
  expect(fs.readFileSync(file).equals(kBody)).toBe(true);
  expect(fs.readdirSync(path.dirname(file))).toEqual(['model.gguf']);
  expect(await downloadModel(url(), folder, options)).toBe(file);
  expect(ranges.length).toBe(1);
});

test('what is no model is refused at its first bytes, and nothing of it stays', async () => {
  const endless = http.createServer((_request, response) => {
    const zeros = Buffer.alloc(65_536);
    const more = () => {
      while (response.write(zeros));
      response.once('drain', more);
    };
    more();
  });
  await new Promise<void>((resolve) => endless.listen(0, '127.0.0.1', resolve));
  const where = `http://127.0.0.1:${(endless.address() as AddressInfo).port}/inf.gguf`;
  await expect(downloadModel(where, folder, options)).rejects.toMatchObject({ code: 'not_gguf' });
  expect(fs.existsSync(folder)).toBe(false);
  endless.close();
  endless.closeAllConnections();
});

test('a download that failed leaves nothing, and not what others have there', async () => {
  const failing = http.createServer((request, response) => {
    if (request.url === '/none.gguf') return void response.writeHead(404).end();
    // Cut at once; without an etag it could not be resumed.
    response.writeHead(200, { 'content-length': kBody.length });
    response.write(kBody.subarray(0, 1000), () => response.destroy());
  });
  await new Promise<void>((resolve) => failing.listen(0, '127.0.0.1', resolve));
  const host = `http://127.0.0.1:${(failing.address() as AddressInfo).port}`;
  for (const name of ['none', 'cut']) {
    await expect(downloadModel(`${host}/${name}.gguf`, folder, options)).rejects.toThrow();
    expect(fs.existsSync(folder), name).toBe(false);
  }
  const file = await downloadModel(url(), folder, options);
  await expect(downloadModel(`${host}/none.gguf`, folder, options)).rejects.toThrow();
  expect(fs.readdirSync(path.join(folder, 'models'))).toEqual([path.basename(path.dirname(file))]);
  failing.close();
  failing.closeAllConnections();
});

test('what an earlier run left is resumed', async () => {
  const file = await downloadModel(url(), folder, options);
  fs.renameSync(file, `${file}.part`);
  fs.truncateSync(`${file}.part`, 50_000);
  fs.writeFileSync(`${file}.part.json`, JSON.stringify({ etag: '"a"', size_bytes: kBody.length }));
  fs.writeFileSync(`${file}.lock`, '2147483646');
  expect(await downloadModel(url(), folder, options)).toBe(file);
  expect(ranges[1]).toBe('bytes=50000-');
  expect(fs.readFileSync(file).equals(kBody)).toBe(true);
});

test('what an earlier run left of another file is not resumed', async () => {
  const file = await downloadModel(url(), folder, options);
  const other = Buffer.from(kBody);
  other[1000] = (other[1000] ?? 0) ^ 1;
  for (const [etag, kept] of [
    ['"b"', other.subarray(0, 50_000)],
    ['"a"', Buffer.concat([kBody, kBody])],
  ] as const) {
    fs.rmSync(file);
    fs.writeFileSync(`${file}.part`, kept);
    fs.writeFileSync(`${file}.part.json`, JSON.stringify({ etag, size_bytes: kBody.length }));
    expect(await downloadModel(url(), folder, options)).toBe(file);
    expect(fs.readFileSync(file).equals(kBody)).toBe(true);
    expect(fs.readdirSync(path.dirname(file))).toEqual(['model.gguf']);
  }
});

test('another process at work is named', async () => {
  const file = await downloadModel(url(), folder, options);
  fs.rmSync(file);
  fs.writeFileSync(`${file}.lock`, String(process.pid));
  await expect(downloadModel(url(), folder, options)).rejects.toMatchObject({ code: 'busy' });
});

test('a lock that another process has made this moment is left to it', async () => {
  const file = await downloadModel(url(), folder, options);
  fs.rmSync(file);
  fs.writeFileSync(`${file}.lock`, '');
  await expect(downloadModel(url(), folder, options)).rejects.toMatchObject({ code: 'busy' });
  const long_ago = new Date(Date.now() - 60_000);
  fs.utimesSync(`${file}.lock`, long_ago, long_ago);
  expect(await downloadModel(url(), folder, options)).toBe(file);
});

test('a folder that cannot be written is a storage error that says what to do', async () => {
  const blocked = path.join(folder, 'file');
  fs.writeFileSync(blocked, '');
  await expect(downloadModel(url(), path.join(blocked, 'cache'), options)).rejects.toMatchObject({
    code: 'storage',
    message: expect.stringContaining('set XDG_CACHE_HOME to another folder, or use --no-cache'),
  });
});

test('names', () => {
  expect(cacheFolder({ XDG_CACHE_HOME: '/x' })).toBe('/x/nonstop');
  const home = path.join(os.homedir(), '.cache/nonstop');
  for (const ignored of [undefined, '', 'x', './x']) {
    expect(cacheFolder({ XDG_CACHE_HOME: ignored })).toBe(home);
  }
  expect(splitUrls('http://h/m-00001-of-00002.gguf?x=1')).toEqual([
    'http://h/m-00001-of-00002.gguf?x=1',
    'http://h/m-00002-of-00002.gguf?x=1',
  ]);
  for (const whole of ['http://h/m.gguf', 'http://h/m-00001-of-00000.gguf']) {
    expect(splitUrls(whole)).toEqual([whole]);
  }
});
