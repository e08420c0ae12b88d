// Downloads from a server that misbehaves on purpose.
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
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

/** The rest of the file as it was asked for, except for how its Content-Range describes it. */
type RangeText = (start: number, last: number, total: number) => string;
const kWrongRanges: { what: string; range: RangeText | undefined; message: string }[] = [
  { what: 'none', range: undefined, message: 'another part' },
  { what: 'another start', range: (_, last, all) => `bytes 5-${last}/${all}`, message: 'another' },
  {
    what: 'another total',
    range: (start, last, all) => `bytes ${start}-${last}/${all + 1}`,
    message: 'changed while it was being downloaded',
  },
  {
    what: 'another unit',
    range: (start, last, all) => `items ${start}-${last}/${all}`,
    message: 'another part',
  },
];
test.each(kWrongRanges)('a Content-Range with $what is refused', async ({ range, message }) => {
  let count = 0;
  const url = await serve((request, response, n) => {
    count = n;
    if (n === 1) return cutAfter(response, 100_000);
    const start = Number(/^bytes=(\d+)-$/.exec(request.headers.range ?? '')?.[1]);
    const text = range?.(start, kBody.length - 1, kBody.length);
    response.writeHead(206, text === undefined ? {} : { 'content-range': text });
    response.end(kBody.subarray(start));
  });
  await expect(readAll(url)).rejects.toMatchObject({
    code: 'network',
    message: expect.stringContaining(message),
  });
  expect(count).toBe(2);
});

test('a range that was not asked for is refused', async () => {
  const url = await serve((_request, response) => {
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

/** A URL that nobody answers: its server is gone. */
async function refusedUrl(): Promise<string> {
  const url = await serve(() => {});
  const server = servers.pop();
  await new Promise((resolve) => server?.close(resolve));
  return url;
}

test('no server at all, and a host of no name, are asked again', async () => {
  await expect(readAll(await refusedUrl())).rejects.toMatchObject({
    code: 'network',
    message: expect.stringContaining('after (3) attempts: connect ECONNREFUSED'),
  });
  // A label of 64 letters is refused without a question to any server.
  await expect(readAll(`http://${'a'.repeat(64)}.invalid/m.gguf`)).rejects.toMatchObject({
    code: 'network',
    message: expect.stringMatching(/after \(3\) attempts: getaddrinfo /),
  });
});

test.each([
  { to: 'file:///etc/passwd', message: 'it redirects to what is neither http: nor https:' },
  { to: 'ftp://127.0.0.1/m.gguf', message: 'it redirects to what is neither http: nor https:' },
  { to: 'data:,GGUF', message: 'it redirects to what is neither http: nor https:' },
  { to: 'http://[', message: 'it redirects to what is no URL' },
  { to: 'http://127.0.0.1:9/', message: 'its port is one that is never fetched from' },
  { to: 'http://me:secret@localhost/', message: 'it redirects to a URL with a user name' },
])('a redirect to $to fails at once', async ({ to, message }) => {
  let count = 0;
  const url = await serve((_request, response, n) => {
    count = n;
    response.writeHead(302, { location: to }).end();
  });
  await expect(readAll(url)).rejects.toMatchObject({
    code: 'network',
    message: expect.stringContaining(`"${url}" cannot be fetched: ${message}`),
  });
  expect(count).toBe(1);
});

test('a redirect loop is walked once', async () => {
  let count = 0;
  const url = await serve((_request, response, n) => {
    count = n;
    response.writeHead(302, { location: '/model.gguf' }).end();
  });
  await expect(readAll(url)).rejects.toMatchObject({
    code: 'network',
    message: `"${url}" cannot be fetched: it redirects too often.`,
  });
  expect(count).toBe(21); // the URL, and the 20 redirects that fetch follows
});

test('a redirect that arrives is followed, and resumed', async () => {
  const url = await serve((request, response, count) => {
    if (request.url === '/model.gguf') response.writeHead(302, { location: '/b.gguf' }).end();
    else if (count === 2) cutAfter(response, 100_000);
    else answerWell(request, response);
  });
  expect((await readAll(url)).equals(kBody)).toBe(true);
});

test.each([
  ['http://', 'The text (http://) is no URL.'],
  ['m.gguf', 'The text (m.gguf) is no URL.'],
  ['', 'The text (empty) is no URL.'],
  ['ftp://h/m', 'The scheme (ftp:) of "ftp://h/m" cannot be fetched; http: and https: can.'],
  ['file:///m', 'The scheme (file:) of "file:///m" cannot be fetched; http: and https: can.'],
  ['http://me:secret@127.0.0.1/m', 'A URL with a user name or password is not read.'],
])('the URL "%s" is refused', async (url, message) => {
  await expect(readAll(url)).rejects.toMatchObject({ code: 'invalid_argument', message });
});

const kStalls: { what: string; stall: (response: http.ServerResponse) => void }[] = [
  { what: 'accepts and never answers', stall: () => {} },
  {
    what: 'sends headers and then nothing',
    stall: (response) => response.writeHead(200, { 'content-length': 300_000 }).flushHeaders(),
  },
  {
    what: 'sends a few bytes and then nothing',
    stall: (response) => {
      response.writeHead(200, { 'content-length': 300_000 });
      response.write(kBody.subarray(0, 10));
    },
  },
];
describe.each(kStalls)('a server that $what', ({ stall }) => {
  test('each time is given up after the last attempt', async () => {
    let count = 0;
    const url = await serve((_request, response, n) => {
      count = n;
      stall(response);
    });
    await expect(readAll(url, { ...kQuick, stall_ms: 200 })).rejects.toMatchObject({
      code: 'network',
      message: `The download of "${url}" failed after (3) attempts: no byte came for 200 ms.`,
    });
    expect(count).toBe(3);
  });

  test('once is asked again', async () => {
    const url = await serve((request, response, count) => {
      if (count === 1) stall(response);
      else answerWell(request, response);
    });
    expect((await readAll(url, { ...kQuick, stall_ms: 200 })).equals(kBody)).toBe(true);
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
