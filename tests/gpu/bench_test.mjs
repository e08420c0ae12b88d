// ./run bench webgpu on a tiny model: in Node on lavapipe, in Chromium and in the page by itself on SwiftShader.
// Every row is there, finite and in its unit; what it measures there is of no interest.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { test } from 'node:test';
import { kTinyModel, run, temporaryFolder } from '../cli/support.mjs';
import { lavapipeEnvironment } from './device.mjs';

const words = ['bench', 'webgpu', '--quick', '--model', kTinyModel, '--tokens', '4'];
const full = process.env.NONSTOP_FULL === '1';
/** SwiftShader takes a second for a pipeline. */
const kSoftwareLimitMs = 300_000;

const kCosts = [
  ...['dispatches/token', 'submits/token', 'waits/token', 'uploads/token'],
  'readback bytes/token',
];
const kDecode = ['GB/s', 'tok/s', ...kCosts];
/** What the tiny model's short context leaves of the quick plan, with the units. */
const kUnits = {
  read: ['GB/s'],
  'decode-0': kDecode,
  'decode-128': kDecode,
  'prefill-430': ['tok/s'],
  'first-token-64': ['ms'],
  'first-token-64-cold': ['ms'],
  'sequences-1': ['ms', 'tok/s'],
  'sequences-6': ['ms', 'tok/s'],
  load: ['ms'],
  facts: ['MB', 'GPU MB'],
};

function checkRows({ rows, failures, kind, complete }, names, host) {
  assert.deepEqual([kind, complete, failures], ['nonstop bench webgpu', true, []]);
  const expected = names.flatMap((what) => kUnits[what].map((unit) => `${what} ${unit}`));
  assert.deepEqual(rows.map(({ what, unit }) => `${what} ${unit}`).sort(), expected.sort());
  for (const row of rows) {
    assert.deepEqual([row.host, row.device, row.software], [host, 'webgpu', 'nonstop']);
    assert.equal(row.samples.length, row.what === 'facts' ? 1 : 3);
    assert.ok(row.samples.every(Number.isFinite), row.what);
    assert.ok(row.min <= row.median && row.median <= row.max, row.what);
    if (!kCosts.includes(row.unit)) assert.ok(row.min > 0, row.what);
  }
  const median = (unit) => rows.find((row) => row.unit === unit)?.median;
  assert.ok(Number.isInteger(median('dispatches/token')) && median('dispatches/token') > 0);
  const bandwidth = rows.find(({ what, unit }) => what === 'decode-0' && unit === 'GB/s');
  assert.ok(bandwidth.ratios.some(({ to }) => to === 'read'));
}

/** Takes half a minute and more. */
const slow = full ? test : () => {};

test('in Node on lavapipe a quick run has all rows, and several replies against one', async (t) => {
  const output = path.join(temporaryFolder(t), 'result.json');
  const settings = { env: lavapipeEnvironment(), limit_ms: kSoftwareLimitMs };
  const { status, stdout, stderr } = await run(
    [...words, '--host', 'node', '--json', output],
    settings,
  );
  assert.equal(status, 0, stderr);
  const json = JSON.parse(fs.readFileSync(output, 'utf8'));
  checkRows(json, Object.keys(kUnits), 'node');
  const [six] = json.rows.filter(({ what, unit }) => what === 'sequences-6' && unit === 'ms');
  assert.equal(six.ratios[0].to, 'sequences-1');
  // One engine for one reply, one for several, and the reading.
  const about = json.subjects.map(({ sequences, kernels }) => `${sequences} ${kernels}`);
  assert.deepEqual(about.sort(), ['1 false', '1 true', '8 false']);
  assert.ok(json.subjects.every(({ adapter }) => /llvmpipe/.test(adapter.software)));
  const [reading] = json.subjects.filter(({ kernels }) => kernels);
  const { max_storage_binding_size_bytes } = reading.adapter.limits;
  assert.equal(reading.buffer_bytes, Math.min(256 * 2 ** 20, max_storage_binding_size_bytes));
  assert.match(stdout, /^model +what +subject +dispatches\/token +submits\/token/m);
});

slow('in Chromium on SwiftShader each subject has its page', async () => {
  const some = ['--only', 'read,decode-0', '--json', '-'];
  const { status, stdout, stderr } = await run([...words, ...some], { limit_ms: kSoftwareLimitMs });
  assert.equal(status, 0, stderr);
  const json = JSON.parse(stdout);
  checkRows(json, ['read', 'decode-0'], 'chromium');
  assert.match(json.versions.chromium, /^\d+(\.\d+)+$/);
  assert.ok(json.subjects.every(({ adapter }) => /swiftshader/i.test(adapter.software)));
});

const kTypes = { '.html': 'text/html', '.mjs': 'text/javascript', '.wasm': 'application/wasm' };

/** Serves a folder to an isolated page, and what it posts; resolves with the body of /done. */
async function openFolder(context, folder, query, log) {
  let finish;
  const done = new Promise((resolve) => (finish = resolve));
  const server = http.createServer(async (request, response) => {
    response.setHeader('cross-origin-opener-policy', 'same-origin');
    response.setHeader('cross-origin-embedder-policy', 'require-corp');
    const { pathname } = new URL(request.url, 'http://localhost');
    if (request.method === 'POST') {
      const body = Buffer.concat(await request.toArray()).toString();
      response.end();
      if (pathname === '/done') finish(body);
      else log.push(body);
      return;
    }
    const file = path.join(folder, pathname);
    response.setHeader('content-type', kTypes[path.extname(file)] ?? 'application/octet-stream');
    if (fs.existsSync(file)) fs.createReadStream(file).pipe(response);
    else response.writeHead(404).end();
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const profile = temporaryFolder(context);
  const url = `http://127.0.0.1:${server.address().port}/page.html?${query}`;
  const flags = ['--headless', '--no-sandbox', '--no-first-run', '--enable-unsafe-webgpu'];
  const program = process.env.NONSTOP_CHROMIUM || '/usr/bin/chromium';
  const browser = spawn(program, [...flags, `--user-data-dir=${profile}`, url], {
    detached: true,
    stdio: 'ignore',
  });
  const ended = new Promise((resolve) => browser.on('exit', resolve));
  try {
    return await Promise.race([done, ended.then((status) => `{"error":"It ended (${status})."}`)]);
  } finally {
    process.kill(-browser.pid, 'SIGKILL');
    await ended;
    server.close();
    server.closeAllConnections();
  }
}

slow('the folder of --pack measures by itself in a page, and posts what it finds', async (t) => {
  const folder = path.join(temporaryFolder(t), 'packed');
  const packed = await run(['bench', 'webgpu', '--model', kTinyModel, '--pack', folder]);
  assert.equal(packed.status, 0, packed.stderr);
  assert.match(packed.stdout, /llama_tied\.gguf\n$/);
  const log = [];
  const query = 'quick=1&tokens=4&only=read,decode-0,first-token-64-cold';
  const json = JSON.parse(await openFolder(t, folder, query, log));
  assert.equal(json.error, undefined);
  checkRows(json, ['read', 'decode-0', 'first-token-64-cold'], 'chromium');
  assert.deepEqual(
    json.models.map(({ name }) => name),
    ['llama_tied'],
  );
  assert.ok(log.some((line) => /round 3\/3: /.test(line)));
  assert.match(log.at(-1), /^model +what/);
});

test('the page says what is wrong', async (t) => {
  const folder = path.join(temporaryFolder(t), 'packed');
  await run(['bench', 'webgpu', '--model', kTinyModel, '--pack', folder]);
  const answer = (query) => openFolder(t, folder, query, []).then(JSON.parse);
  assert.match((await answer('models=nothing.gguf')).error, /^There is no ".*nothing\.gguf"\.$/);
  assert.match((await answer('only=decoding')).error, /\(decoding\) is none of those/);
});
