// A small static server for the chat page and for --host chromium: folders by URL prefix, single files
// (models) with byte ranges, and the headers that isolate a page so that it may use threads.
// Non-goals: TLS, compression, anything but GET and HEAD.
import { once } from 'node:events';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { EngineError } from '../../../web/src/api/index.js';

export interface ServerOptions {
  port: number;
  /** URL prefix ("/nonstop/") to folder. */
  folders: Readonly<Record<string, string>>;
  /** URL path to file. */
  files: Readonly<Record<string, string>>;
  /** URL path to a JSON value. */
  json?: Readonly<Record<string, unknown>>;
  /** A URL whose answers, and those of its siblings (a split model), are passed on below `prefix`. */
  remote?: RemoteFile | undefined;
  /** Default: kContentSecurityPolicy. */
  content_security_policy?: string;
}

export interface RemoteFile {
  prefix: string;
  url: string;
}

export interface RunningServer {
  port: number;
  url: string;
  close(): Promise<void>;
}

/** Not "localhost", which may be [::1] and there another program. Browsers trust it as much. */
const kAddress = '127.0.0.1';

const kTypes: Record<string, string> = {
  '.html': 'text/html; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.mjs': 'text/javascript; charset=utf-8',
  '.json': 'application/json; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.wasm': 'application/wasm',
};

/** The page's whole policy: own scripts and workers, WebAssembly, nothing inline, nothing foreign. */
export const kContentSecurityPolicy = [
  "default-src 'none'",
  "script-src 'self' 'wasm-unsafe-eval'",
  "worker-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self' https:",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

// Document-Isolation-Policy isolates alone and keeps foreign embeds working; COOP and COEP are for
// browsers that do not know it.
const kHeaders = {
  'document-isolation-policy': 'isolate-and-credentialless',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-embedder-policy': 'require-corp',
  'cross-origin-resource-policy': 'same-origin',
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cache-control': 'no-cache',
};

export async function startServer(options: ServerOptions): Promise<RunningServer> {
  const policy = options.content_security_policy ?? kContentSecurityPolicy;
  const server = http.createServer((request, response) => {
    response.setHeader('content-security-policy', policy);
    try {
      answer(options, request, response);
    } catch {
      refuse(response, 500, 'The server failed.');
    }
  });
  const port = await listen(server, options.port);
  return {
    port,
    url: `http://${kAddress}:${port}/`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function listen(server: http.Server, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', (error) => {
      const code = 'code' in error ? error.code : '';
      if (code === 'EADDRINUSE') {
        reject(new EngineError('busy', `Port (${port}) is in use; choose another with --port.`));
      } else {
        reject(new EngineError('storage', `Port (${port}) cannot be opened (${String(code)}).`));
      }
    });
    server.listen(port, kAddress, () => {
      const address = server.address();
      resolve(typeof address === 'object' && address ? address.port : port);
    });
  });
}

function answer(
  options: ServerOptions,
  request: http.IncomingMessage,
  response: http.ServerResponse,
): void {
  if (request.method !== 'GET' && request.method !== 'HEAD') {
    refuse(response, 405, 'Only GET and HEAD are answered.');
    return;
  }
  const { remote } = options;
  const wanted = request.url ?? '/';
  if (remote && wanted.startsWith(remote.prefix)) {
    const target = new URL(wanted.slice(remote.prefix.length), new URL('.', remote.url));
    target.search = new URL(remote.url).search;
    passOn(target, request, response).catch(() => refuse(response, 502, 'It cannot be fetched.'));
    return;
  }
  const pathname = decodePath(wanted);
  const json = pathname === undefined ? undefined : options.json?.[pathname];
  if (json !== undefined) {
    response.writeHead(200, { ...kHeaders, 'content-type': kTypes['.json'] });
    response.end(request.method === 'HEAD' ? undefined : JSON.stringify(json));
    return;
  }
  const file = pathname === undefined ? undefined : findFile(options, pathname);
  const stat = file === undefined ? undefined : fs.statSync(file, { throwIfNoEntry: false });
  if (file === undefined || !stat?.isFile()) refuse(response, 404, 'There is no such file.');
  else sendFile(file, stat, request, response);
}

function decodePath(url: string): string | undefined {
  try {
    return decodeURIComponent(new URL(url, 'http://localhost').pathname);
  } catch {
    return undefined;
  }
}

function findFile(options: ServerOptions, pathname: string): string | undefined {
  const single = options.files[pathname];
  if (single !== undefined) return single;
  const prefixes = Object.keys(options.folders).sort((a, b) => b.length - a.length);
  const prefix = prefixes.find((candidate) => pathname.startsWith(candidate));
  const folder = prefix === undefined ? undefined : options.folders[prefix];
  if (prefix === undefined || folder === undefined || pathname.includes('\0')) return undefined;
  const file = path.join(folder, pathname.slice(prefix.length) || 'index.html');
  return file.startsWith(folder + path.sep) ? file : undefined;
}

function sendFile(
  file: string,
  stat: fs.Stats,
  request: http.IncomingMessage,
  response: http.ServerResponse,
): void {
  const size_bytes = stat.size;
  const etag = `"${size_bytes.toString(36)}-${Math.round(stat.mtimeMs).toString(36)}"`;
  const headers: http.OutgoingHttpHeaders = {
    ...kHeaders,
    'content-type': kTypes[path.extname(file)] ?? 'application/octet-stream',
    'accept-ranges': 'bytes',
    etag,
  };
  const range = parseRange(request.headers.range, size_bytes);
  if (range === 'unsatisfiable') {
    response.writeHead(416, { ...headers, 'content-range': `bytes */${size_bytes}` });
    response.end();
    return;
  }
  const { start, end } = range ?? { start: 0, end: size_bytes - 1 };
  headers['content-length'] = end - start + 1;
  if (range) headers['content-range'] = `bytes ${start}-${end}/${size_bytes}`;
  response.writeHead(range ? 206 : 200, headers);
  if (request.method === 'HEAD' || size_bytes === 0) {
    response.end();
    return;
  }
  const stream = fs.createReadStream(file, { start, end });
  stream.on('error', () => response.destroy());
  response.on('close', () => stream.destroy());
  stream.pipe(response);
}

const kPassedOn = ['content-length', 'content-range', 'accept-ranges', 'etag'];

/** A page may read from few servers (CORS, and its policy); this program from all. */
async function passOn(
  target: URL,
  request: http.IncomingMessage,
  response: http.ServerResponse,
): Promise<void> {
  const stop = new AbortController();
  response.on('close', () => stop.abort());
  const { range } = request.headers;
  const answered = await fetch(target, {
    headers: { 'accept-encoding': 'identity', ...(range === undefined ? {} : { range }) },
    signal: stop.signal,
  });
  const headers: http.OutgoingHttpHeaders = { ...kHeaders };
  const is_plain = answered.headers.get('content-encoding') === null;
  for (const name of kPassedOn) {
    const value = answered.headers.get(name);
    if (value !== null && (is_plain || name !== 'content-length')) headers[name] = value;
  }
  response.writeHead(answered.status, headers);
  const body = answered.body?.getReader();
  for (let part = await body?.read(); part?.value; part = await body?.read()) {
    if (!response.write(part.value)) await once(response, 'drain', { signal: stop.signal });
  }
  response.end();
}

/** One byte range; anything else is answered with the whole file, as HTTP allows. */
export function parseRange(
  header: string | undefined,
  size_bytes: number,
): { start: number; end: number } | 'unsatisfiable' | undefined {
  const match = /^bytes=(\d*)-(\d*)$/.exec(header ?? '');
  if (!match || (match[1] === '' && match[2] === '')) return undefined;
  const last = size_bytes - 1;
  if (match[1] === '') {
    const length = Number(match[2]);
    return length === 0 ? 'unsatisfiable' : { start: Math.max(0, size_bytes - length), end: last };
  }
  const start = Number(match[1]);
  const end = match[2] === '' ? last : Math.min(Number(match[2]), last);
  if (start > last) return 'unsatisfiable';
  return end < start ? undefined : { start, end };
}

function refuse(response: http.ServerResponse, status: number, message: string): void {
  if (response.headersSent) {
    response.destroy();
    return;
  }
  response.writeHead(status, { ...kHeaders, 'content-type': 'text/plain; charset=utf-8' });
  response.end(message);
}
