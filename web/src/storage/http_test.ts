// Downloads from a server that misbehaves on purpose.
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import { HttpStream, type HttpOptions } from './http.js';

const kBody = Uint8Array.from({ length: 300_000 }, (_, i) => (i * 7 + (i >> 8)) & 0xff);
const kQuick: HttpOptions = { backoff_ms: 1, attempts: 3 };

type Handler = (
  request: http.IncomingMessage,
  response: http.ServerResponse,
  count: number,
) => void;
const servers: http.Server[] = [];

async function serve(handler: Handler): Promise<string> {
  let count = 0;
  const server = http.createServer((request, response) => handler(request, response, ++count));
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return `http://127.0.0.1:${port}/model.gguf`;
}

afterEach(() => {
  for (const server of servers.splice(0)) {
    server.close();
    server.closeAllConnections();
  }
});

/** Answers a whole or a ranged request as it should be answered. */
function answerWell(
  request: http.IncomingMessage,
  response: http.ServerResponse,
  etag = '"one"',
  body = kBody,
): void {
  const start = Number(/^bytes=(\d+)-$/.exec(request.headers.range ?? '')?.[1] ?? 0);
  const headers: http.OutgoingHttpHeaders = { etag, 'content-length': body.length - start };
  if (start > 0) headers['content-range'] = `bytes ${start}-${body.length - 1}/${body.length}`;
  response.writeHead(start > 0 ? 206 : 200, headers);
  response.end(body.subarray(start));
}

/** Sends the headers of the whole file, some of it, and then cuts the connection. */
function cutAfter(response: http.ServerResponse, count: number): void {
  response.writeHead(200, { etag: '"one"', 'content-length': kBody.length });
  response.write(kBody.subarray(0, count), () => setImmediate(() => response.destroy()));
}

async function readAll(url: string, options: HttpOptions = kQuick): Promise<Buffer> {
  const stream = await HttpStream.open(url, options);
  const chunks: Uint8Array[] = [];
  for (let chunk = await stream.read(); chunk; chunk = await stream.read()) chunks.push(chunk);
  return Buffer.concat(chunks);
}

test('a cut connection is resumed by range', async () => {
  const ranges: (string | undefined)[] = [];
  const url = await serve((request, response, count) => {
    ranges.push(request.headers.range);
    if (count === 1) cutAfter(response, 100_000);
    else answerWell(request, response);
  });
  expect((await readAll(url)).equals(kBody)).toBe(true);
  expect(ranges[0]).toBeUndefined();
  expect(ranges[1]).toMatch(/^bytes=\d+-$/);
});

test('a server that knows no ranges is read again from the start', async () => {
  const url = await serve((_request, response, count) => {
    if (count === 1) return cutAfter(response, 100_000);
    response.writeHead(200, { 'content-length': kBody.length });
    response.end(kBody);
  });
  expect((await readAll(url)).equals(kBody)).toBe(true);
});

test('a file that changes midway is refused', async () => {
  const url = await serve((request, response, count) => {
    if (count === 1) cutAfter(response, 100_000);
    else answerWell(request, response, '"two"');
  });
  await expect(readAll(url)).rejects.toMatchObject({
    code: 'network',
    message: expect.stringContaining('changed while it was being downloaded'),
  });
});

test('a range that starts elsewhere is refused', async () => {
  const url = await serve((_request, response, count) => {
    if (count === 1) return cutAfter(response, 100_000);
    response.writeHead(206, { 'content-range': `bytes 5-${kBody.length - 1}/${kBody.length}` });
    response.end(kBody.subarray(5));
  });
  await expect(readAll(url)).rejects.toMatchObject({ code: 'network' });
});

test('busy servers are asked again, a bounded number of times', async () => {
  let count = 0;
  const url = await serve((request, response, n) => {
    count = n;
    if (n < 3) response.writeHead(503).end();
    else answerWell(request, response);
  });
  expect((await readAll(url)).length).toBe(kBody.length);
  expect(count).toBe(3);
  const down = await serve((_request, response) => response.writeHead(503).end());
  await expect(readAll(down)).rejects.toMatchObject({
    code: 'network',
    message: expect.stringContaining('after (3) attempts: HTTP 503'),
  });
});

test('404 is not_found and is not asked twice; 403 is network', async () => {
  let count = 0;
  const url = await serve((_request, response, n) => {
    count = n;
    response.writeHead(404).end();
  });
  await expect(readAll(url)).rejects.toMatchObject({ code: 'not_found' });
  expect(count).toBe(1);
  const secret = await serve((_request, response) => response.writeHead(403).end());
  await expect(readAll(secret)).rejects.toMatchObject({ code: 'network' });
});

test('no server at all', async () => {
  await expect(readAll('http://127.0.0.1:9/model.gguf')).rejects.toMatchObject({ code: 'network' });
});

test('a stall is noticed', async () => {
  const url = await serve((_request, response) => {
    response.writeHead(200, { 'content-length': kBody.length });
    response.write(kBody.subarray(0, 10));
  });
  await expect(readAll(url, { ...kQuick, stall_ms: 40 })).rejects.toMatchObject({
    code: 'network',
    message: expect.stringContaining('no byte came for 40 ms'),
  });
});

test('an abort ends the wait at once', async () => {
  const stop = new AbortController();
  const url = await serve((_request, response) => {
    response.writeHead(200, { 'content-length': kBody.length });
    response.write(kBody.subarray(0, 10), () => stop.abort());
  });
  await expect(readAll(url, { ...kQuick, signal: stop.signal })).rejects.toMatchObject({
    name: 'AbortError',
  });
});
