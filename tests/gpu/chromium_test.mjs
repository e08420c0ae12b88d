// The player in a worker of Chromium, on SwiftShader: the list made by hand, and a device that is lost.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { chromium } from 'playwright-core';
import { bundleGpu } from './bundle.mjs';

const kWorker = `
import { findAdapter, openDevice } from './web/src/gpu/adapter.js';
import { selfTestFault } from './web/src/gpu/device_check.js';
import { Driver, makeList } from './tests/gpu/driver.mjs';

async function play() {
  const found = await findAdapter();
  if ('missing' in found) return found;
  const { device } = await openDevice(found.adapter, { default_limits: true, without: [] });
  const fault = await selfTestFault(device);
  const driver = new Driver(device);
  const list = await makeList(driver);
  const at = driver.reserve(32);
  const readbacks = [{ buffer: 1, offset: 0, size: 32, destination: at }];
  const ticket = driver.submit(list, readbacks);
  driver.memory.grow(64);
  await driver.until(ticket);
  const values = driver.floats(at, 8);
  const { counts } = driver.player.counter;
  driver.submit(list, readbacks);
  device.destroy();
  await driver.player.nextReport();
  const errors = driver.reports.errors.map(({ code, message }) => ({ code, message }));
  return { fault, values, counts, errors, software: found.report.software };
}
play().then(postMessage, (error) => postMessage({ thrown: String(error) }));
`;

/** A page on localhost, where WebGPU is; it starts the worker and gives what it posts. */
async function playInChromium(context, more) {
  const script = await bundleGpu(kWorker);
  const server = http.createServer((request, response) => {
    const is_worker = request.url === '/worker.mjs';
    response.setHeader('content-type', is_worker ? 'text/javascript' : 'text/html');
    response.end(is_worker ? script : '<!doctype html><title>gpu</title>');
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const profile = fs.mkdtempSync(path.join(os.tmpdir(), 'nonstop-gpu-'));
  const browser = await chromium.launchPersistentContext(profile, {
    executablePath: process.env.NONSTOP_CHROMIUM || '/usr/bin/chromium',
    headless: true,
    args: ['--no-sandbox', '--no-first-run', '--disable-quic', '--disable-sync', ...more],
  });
  context.after(async () => {
    await browser.close();
    server.close();
    server.closeAllConnections();
    fs.rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
  });
  const page = await browser.newPage();
  await page.goto(`http://localhost:${server.address().port}/`);
  return page.evaluate(() => {
    const worker = new Worker('/worker.mjs', { type: 'module' });
    return new Promise((resolve, reject) => {
      worker.onmessage = ({ data }) => resolve(data);
      worker.onerror = ({ message }) => reject(new Error(message));
    });
  });
}

test('on SwiftShader the list has its results, and a lost device is an error', async (t) => {
  const found = await playInChromium(t, ['--enable-unsafe-webgpu']);
  assert.equal(found.thrown, undefined);
  assert.equal(found.fault, undefined);
  assert.match(found.software, /swiftshader/i);
  assert.deepEqual(found.values, [22, 24, 26, 28, 210, 212, 214, 216]);
  const counts = { dispatches: 3, submits: 1, waits: 1, uploads: 3, readback_bytes: 32 };
  assert.deepEqual(found.counts, counts);
  assert.equal(found.errors.length, 1);
  assert.equal(found.errors[0].code, 'backend_failed');
  assert.match(found.errors[0].message, /^The GPU device was lost \(destroyed: /);
});

test('without the flag there is no adapter here, and that is said', async (t) => {
  assert.deepEqual(await playInChromium(t, []), { missing: 'WebGPU has no adapter here' });
});
