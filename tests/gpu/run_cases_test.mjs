// The runner of kernel cases itself: what is right passes, and each kind of fault is told.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { openDevice } from './device.mjs';
import { runCases } from './run_cases.mjs';

const kScale = `
struct Params { factor: f32 }
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@group(0) @binding(2) var<uniform> params: Params;
@compute @workgroup_size(4) fn main(@builtin(global_invocation_id) id: vec3u) {
  if (id.x < 5u) { y[id.x] = x[id.x] * params.factor; }
}`;
const kSentinel = -77;

/** A case of scaling (1, 2, 3, 4, 5) by 3, with `changes` made to it and to what is expected. */
function scaleCase(name, changes = {}, expected = [3, 6, 9, 12, 15]) {
  const params = new Float32Array(128);
  params[64] = 3; // at byte 256
  const parts = [
    Float32Array.from([1, 2, 3, 4, 5]),
    new Float32Array(8).fill(kSentinel),
    params,
    Float32Array.from([...expected, kSentinel, kSentinel, kSentinel]),
  ].map((values) => Buffer.from(values.buffer));
  const offsets = [];
  let end = 0;
  for (const part of parts) {
    offsets.push(end);
    end += part.length;
  }
  const bindings = [
    { access: 'read', offset: offsets[0], size: 20 },
    { access: 'read_write', offset: offsets[1], size: 32, expected_offset: offsets[3] },
    { access: 'uniform', offset: offsets[2], size: 512 },
  ];
  const json = { name, wgsl: kScale, bindings, dynamic_offset: 256, workgroups: [2, 1, 1] };
  return { json: { ...json, ...changes }, bytes: Buffer.concat(parts) };
}

let opened;
before(async () => (opened = await openDevice()));
after(() => opened.device.destroy());

async function runOne({ json, bytes }) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cases-'));
  fs.writeFileSync(path.join(folder, 'cases.json'), JSON.stringify([json]));
  fs.writeFileSync(path.join(folder, 'cases.bin'), bytes);
  const faults = [];
  const report = (_name, fault) => faults.push(fault);
  const counts = await runCases(opened.device, folder, { report });
  fs.rmSync(folder, { recursive: true });
  assert.equal(counts.passed + counts.failed, 1);
  return faults[0];
}

test('a right case passes, its params at the dynamic offset', async () => {
  assert.equal(await runOne(scaleCase('right')), undefined);
});

test('the first wrong value is told with its index and both values', async () => {
  const fault = await runOne(scaleCase('wrong', {}, [3, 6, 9.5, 12, 15.5]));
  assert.match(fault, /^binding 1: index 2 is 9 \(0x41100000\), expected 9\.5 .*; 2 of 8 differ$/);
});

test('a tolerance is kept to, as one number and value by value', async () => {
  const within = async (limit) => {
    const { json, bytes } = scaleCase('tolerance', {}, [3, 6, 9.25, 12, 15]);
    Object.assign(json.bindings[1], limit(bytes.length));
    const limits = Float32Array.from([0, 0, 0.25, 0, 0, 0, 0, 0]);
    return runOne({ json, bytes: Buffer.concat([bytes, Buffer.from(limits.buffer)]) });
  };
  assert.equal(await within(() => ({ tolerance: 0.25 })), undefined);
  assert.match(await within(() => ({ tolerance: 0.125 })), /index 2/);
  assert.equal(await within((at) => ({ tolerance_offset: at })), undefined);
  assert.match(await within((at) => ({ tolerance_offset: at - 4 })), /index 2/);
});

test('a value written past the end is told', async () => {
  const fault = await runOne(scaleCase('sentinel', { wgsl: kScale.replace('< 5u', '< 6u') }));
  assert.match(fault, /^binding 1: index 5 is /);
});

test('NaN is never within a tolerance', async () => {
  const { json, bytes } = scaleCase('NaN');
  json.bindings[1].tolerance = 1e30;
  bytes.writeFloatLE(NaN, 0);
  assert.match(await runOne({ json, bytes }), /index 0 is NaN/);
});

test('a pipeline that does not compile and a binding past the limits are faults of their case', async () => {
  assert.match(await runOne(scaleCase('syntax', { wgsl: 'fn main( {' })), /^pipeline: /);
  const groups = scaleCase('groups', { workgroups: [65536, 1, 1] });
  assert.match(await runOne(groups), /^submission: /);
  assert.equal(await runOne(scaleCase('right again')), undefined);
});
