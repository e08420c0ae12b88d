// Which device computes, and what happens when the GPU fails: the command line with npm "webgpu" on lavapipe,
// and in Chromium with SwiftShader. Faults are injected into the real device (faulty_gpu.mjs).
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import {
  kRoot,
  kTinyModel,
  runJson,
  start,
  temporaryFolder,
  waitForOutput,
} from '../cli/support.mjs';
import { lavapipeEnvironment } from './device.mjs';

const kIds = '15,20,208,237,189,187,24';
const kCount = 8;
const kNoEnd = ['--ids', kIds, '--temperature', '0', '--ignore-eos', '--model', kTinyModel];
const words = [...kNoEnd, '--max-tokens', String(kCount)];
const lavapipe = { env: lavapipeEnvironment() };
const kNoDriver = { env: { VK_DRIVER_FILES: '/nowhere.json' } };

/** The command line on lavapipe, which does not tell that it is software, with a fault. */
function runFaulty(fault, more = [], request = words) {
  return runJson([...request, ...more], {
    env: { ...lavapipe.env, NONSTOP_TEST_FAULT: fault },
    node_options: ['--import', path.join(kRoot, 'tests/gpu/faulty_gpu.mjs')],
  });
}

/** The tokens that the CPU gives, in f32 as the GPU computes. */
async function cpuIds() {
  const { json } = await runJson([...words, '--device', 'cpu', '--activations', 'f32']);
  return json.token_ids;
}

test('without a driver: auto computes on the CPU and says why, webgpu fails', async () => {
  const { json, stderr } = await runJson(words, kNoDriver);
  assert.equal(json.backend, 'cpu-relaxed');
  assert.match(
    json.reason,
    /WebGPU is not used: there is no Vulkan driver \(VK_DRIVER_FILES .*\)\.$/,
  );
  assert.equal(json.adapter, null);
  assert.equal(stderr, '');
  const forced = await runJson([...words, '--device', 'webgpu'], kNoDriver);
  assert.equal(forced.status, 8);
  assert.deepEqual(forced.json.error, {
    code: 'backend_failed',
    message: 'WebGPU was asked for, but there is no Vulkan driver (VK_DRIVER_FILES may name one).',
  });
});

test('auto leaves a software adapter, and reports it', async () => {
  const { json } = await runJson(words, lavapipe);
  assert.equal(json.backend, 'cpu-relaxed');
  assert.match(json.reason, /WebGPU is not used: llvmpipe.* is a software adapter \(.*\)\.$/);
  assert.equal(json.adapter.used, false);
  assert.match(json.adapter.software, /llvmpipe/);
  assert.equal(json.dispatches_per_token, null);
});

test('cpu looks for no adapter', async () => {
  const { json } = await runJson([...words, '--device', 'cpu'], lavapipe);
  assert.equal(json.adapter, null);
  assert.doesNotMatch(json.reason, /WebGPU/);
});

test('webgpu excludes what only the CPU has', async () => {
  for (const more of [['--build', 'simd'], ['--backend-reference']]) {
    const { status, json } = await runJson([...words, '--device', 'webgpu', ...more], lavapipe);
    assert.equal(status, 2);
    assert.equal(json.error.code, 'invalid_argument');
  }
});

test('webgpu takes a software adapter, gives the tokens of the CPU, and counts', async () => {
  const { json } = await runJson([...words, '--device', 'webgpu'], lavapipe);
  assert.equal(json.error, undefined);
  assert.equal(json.backend, 'webgpu');
  assert.match(json.reason, /^WebGPU was asked for; llvmpipe.* passed its self-test\.$/);
  assert.equal(json.adapter.used, true);
  assert.equal(json.threads, 1);
  assert.deepEqual(json.token_ids, await cpuIds());
  assert.equal(json.submits_per_token, 1);
  // Several tokens are under way: on a driver as slow as this one the GPU has run out of work at times.
  assert.ok(json.waits_per_token < 1 && json.uploads_per_token < 1);
  assert.ok(Number.isInteger(json.dispatches_per_token) && json.dispatches_per_token > 0);
  assert.ok(json.readback_bytes_per_token > 0);
});

test('auto takes an adapter that is not software', async () => {
  const { json } = await runFaulty('hidden');
  assert.equal(json.backend, 'webgpu');
  assert.equal(json.reason, 'WebGPU: test hidden passed its self-test.');
  assert.deepEqual(json.token_ids, await cpuIds());
});

test('a device that computes wrongly is not used', async () => {
  const { json } = await runFaulty('compute');
  assert.equal(json.backend, 'cpu-relaxed');
  assert.match(
    json.reason,
    /WebGPU is not used: on test hidden its self-test gave \(2460, 32767\) instead of \(2460, 35000\)\.$/,
  );
  const forced = await runFaulty('compute', ['--device', 'webgpu']);
  assert.equal(forced.json.error.code, 'backend_failed');
});

for (const [fault, pattern] of [
  ['buffers:3', /it failed \(Model ".*": The GPU device was lost \(.*\)\)\.$/],
  ['compile', /it failed \(Model ".*": Pipeline ".*" failed \(line 1: .*\)\)\.$/],
]) {
  test(`a GPU that fails while the model loads (${fault}): auto goes to the CPU`, async () => {
    const { json } = await runFaulty(fault);
    assert.equal(json.error, undefined);
    assert.equal(json.backend, 'cpu-relaxed');
    assert.match(json.reason, pattern);
    assert.equal(json.adapter.used, false);
    assert.equal(json.token_ids.length, kCount);
    const forced = await runFaulty(fault, ['--device', 'webgpu']);
    assert.equal(forced.status, 8);
    assert.equal(forced.json.error.code, 'backend_failed');
  });
}

test('a device that is lost amid a reply is an error of the reply', async () => {
  const request = [...kNoEnd, '--max-tokens', '100'];
  const whole = await runFaulty('hidden', [], request);
  assert.equal(whole.json.token_ids.length, 100);
  const { status, json } = await runFaulty('submits:60', [], request);
  assert.equal(status, 8);
  assert.equal(json.error.code, 'backend_failed');
  assert.match(json.error.message, /^The GPU device was lost \(destroyed: /);
});

// Dawn aborts a program whose worker ends amid one of its promises.
test('Ctrl-C amid a reply, and amid a load, ends the program in order', async (t) => {
  const request = [...kNoEnd, '--max-tokens', '0', '--device', 'webgpu'];
  const { child, done } = start(request, lavapipe);
  await waitForOutput(child, /./);
  child.kill('SIGINT');
  const { status, signal, stderr } = await done;
  assert.deepEqual([status, signal], [130, null], stderr);
  const script = `
    import { Engine } from ${JSON.stringify(path.join(kRoot, 'web/dist/nonstop.mjs'))};
    const stop = new AbortController();
    const model = { kind: 'file', path: ${JSON.stringify(kTinyModel)} };
    const onProgress = () => stop.abort();
    const loading = Engine.load(model, { device: 'webgpu', onProgress, signal: stop.signal });
    await loading.catch(({ code, message }) => console.log(code, message));`;
  const file = path.join(temporaryFolder(t), 'load.mjs');
  fs.writeFileSync(file, script);
  const env = { ...process.env, ...lavapipe.env };
  const loaded = spawnSync(process.execPath, [file], { env, encoding: 'utf8' });
  assert.equal(loaded.stdout, 'aborted The caller asked to stop.\n');
  assert.equal(loaded.status, 0, loaded.stderr);
});

const chromium = ['--host', 'chromium'];

test('Chromium without a GPU: auto computes on the CPU and says why', async () => {
  const { json } = await runJson([...words, ...chromium]);
  assert.equal(json.backend, 'cpu-relaxed');
  assert.match(json.reason, /WebGPU is not used: /);
});

test("Chromium's worker on SwiftShader gives the tokens of the CPU", async () => {
  // SwiftShader takes a second for a pipeline.
  const settings = { limit_ms: 300_000 };
  const { json } = await runJson([...words, ...chromium, '--device', 'webgpu'], settings);
  assert.equal(json.error, undefined);
  assert.equal(json.backend, 'webgpu');
  assert.match(json.adapter.software, /swiftshader/i);
  assert.deepEqual(json.token_ids, await cpuIds());
  assert.equal(json.submits_per_token, 1);
});
