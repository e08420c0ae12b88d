// Plays kernel cases on a real device and compares what they write:
//
//   node tests/gpu/run_cases.mjs FOLDER [--filter=REGEX] [--subgroup-size=4|8|16] [--failures]
//
// FOLDER holds cases.json and cases.bin, as webgpu_cases (engine/webgpu) writes them. A case is
//   {name, wgsl, bindings, dynamic_offset?, workgroups: [x, y, z]}
// and a binding {access: "read" | "read_write" | "uniform", offset, size, expected_offset?,
// tolerance? | tolerance_offset?, type?: "f32" | "u32"}, with offsets into cases.bin. What is expected has
// the binding's size, its sentinels included; without a tolerance all bits must be right. At
// tolerance_offset lies an f32 for each value.
// All cases run on one device; error scopes are around each pipeline and each submission.
import fs from 'node:fs';
import path from 'node:path';
import { openDevice } from './device.mjs';

const kWaitLimitMs = 120_000;
const kUniformBytes = 256; // params of two steps are so far apart
const kBufferTypes = { read: 'read-only-storage', read_write: 'storage', uniform: 'uniform' };
const kScopes = ['validation', 'out-of-memory', 'internal'];

/** Runs `action` and throws the first GPU error that it caused. */
async function scoped(device, what, action) {
  for (const scope of kScopes) device.pushErrorScope(scope);
  let result;
  let thrown;
  try {
    result = await action();
  } catch (error) {
    thrown = error;
  }
  const errors = await Promise.all(kScopes.map(() => device.popErrorScope()));
  const error = errors.find((found) => found !== null) ?? thrown;
  if (error) throw new Error(`${what}: ${error.message}`);
  return result;
}

function bounded(promise, what) {
  let timer;
  const limit = new Promise((_, reject) => {
    const fail = () => reject(new Error(`${what} took more than ${kWaitLimitMs} ms`));
    timer = setTimeout(fail, kWaitLimitMs);
  });
  return Promise.race([promise, limit]).finally(() => clearTimeout(timer));
}

function makePipeline(device, test) {
  return scoped(device, 'pipeline', async () => {
    const entries = test.bindings.map(({ access }, binding) => {
      const hasDynamicOffset = access === 'uniform' && test.dynamic_offset !== undefined;
      const buffer = { type: kBufferTypes[access], hasDynamicOffset };
      return { binding, visibility: GPUShaderStage.COMPUTE, buffer };
    });
    const layout = device.createBindGroupLayout({ entries });
    const module = device.createShaderModule({ code: test.wgsl, label: test.name });
    const pipeline = await bounded(
      device.createComputePipelineAsync({
        layout: device.createPipelineLayout({ bindGroupLayouts: [layout] }),
        compute: { module, entryPoint: 'main' },
      }),
      'the pipeline',
    );
    return { pipeline, layout };
  });
}

function makeBuffer(device, bytes, { access }) {
  const { COPY_DST, COPY_SRC, STORAGE, UNIFORM } = GPUBufferUsage;
  const usage = access === 'uniform' ? UNIFORM : STORAGE | COPY_SRC;
  const size = Math.ceil(bytes.length / 4) * 4;
  const buffer = device.createBuffer({ size, usage: usage | COPY_DST, mappedAtCreation: true });
  new Uint8Array(buffer.getMappedRange()).set(bytes);
  buffer.unmap();
  return buffer;
}

/** What each binding holds after the dispatch; undefined where nothing is expected. */
async function play(device, { pipeline, layout }, test, data) {
  const { bindings, dynamic_offset, workgroups } = test;
  const inputs = bindings.map((one) => data.subarray(one.offset, one.offset + one.size));
  const buffers = bindings.map((one, i) => makeBuffer(device, inputs[i], one));
  const results = bindings.map(({ expected_offset }, i) => {
    if (expected_offset === undefined) return undefined;
    const { COPY_DST, MAP_READ } = GPUBufferUsage;
    return device.createBuffer({ size: buffers[i].size, usage: COPY_DST | MAP_READ });
  });
  try {
    await scoped(device, 'submission', async () => {
      const entries = buffers.map((buffer, binding) => {
        if (bindings[binding].access !== 'uniform') return { binding, resource: { buffer } };
        const size = Math.min(buffer.size - (dynamic_offset ?? 0), kUniformBytes);
        return { binding, resource: { buffer, size } };
      });
      const encoder = device.createCommandEncoder();
      const pass = encoder.beginComputePass();
      pass.setPipeline(pipeline);
      const offsets = dynamic_offset === undefined ? [] : [dynamic_offset];
      pass.setBindGroup(0, device.createBindGroup({ layout, entries }), offsets);
      pass.dispatchWorkgroups(...workgroups);
      pass.end();
      results.forEach((result, i) => {
        if (result) encoder.copyBufferToBuffer(buffers[i], 0, result, 0, result.size);
      });
      device.queue.submit([encoder.finish()]);
      await bounded(device.queue.onSubmittedWorkDone(), 'the dispatch');
    });
    return await Promise.all(
      results.map(async (result, i) => {
        if (!result) return undefined;
        await bounded(result.mapAsync(GPUMapMode.READ), 'the read-back');
        return Buffer.from(result.getMappedRange().slice(0, bindings[i].size));
      }),
    );
  } finally {
    for (const buffer of [...buffers, ...results]) buffer?.destroy();
  }
}

/** The first value that differs by more than allowed, or undefined. */
export function firstDifference(binding, actual, data) {
  const { size, expected_offset, tolerance, tolerance_offset } = binding;
  const is_float = binding.type !== 'u32' && (tolerance ?? tolerance_offset) !== undefined;
  const expected = data.subarray(expected_offset, expected_offset + size);
  let first;
  let count = 0;
  for (let at = 0; at < size; at += 4) {
    if (actual.readUInt32LE(at) === expected.readUInt32LE(at)) continue;
    if (is_float) {
      const limit = tolerance ?? data.readFloatLE(tolerance_offset + at);
      // Written so that NaN fails.
      if (Math.abs(actual.readFloatLE(at) - expected.readFloatLE(at)) <= limit) continue;
    }
    count += 1;
    first ??= at;
  }
  if (first === undefined) return undefined;
  const show = (bytes) => {
    const hex = `0x${bytes.readUInt32LE(first).toString(16).padStart(8, '0')}`;
    return binding.type === 'u32' ? hex : `${bytes.readFloatLE(first)} (${hex})`;
  };
  const limit = is_float ? (tolerance ?? data.readFloatLE(tolerance_offset + first)) : 0;
  return (
    `index ${first / 4} is ${show(actual)}, expected ${show(expected)} within ${limit}; ` +
    `${count} of ${size / 4} differ`
  );
}

async function runCase(device, pipelines, test, data) {
  const key = JSON.stringify([
    test.wgsl,
    test.bindings.map(({ access }) => access),
    test.dynamic_offset !== undefined,
  ]);
  if (!pipelines.has(key)) pipelines.set(key, makePipeline(device, test));
  const actual = await play(device, await pipelines.get(key), test, data);
  for (const [i, bytes] of actual.entries()) {
    const fault = bytes && firstDifference(test.bindings[i], bytes, data);
    if (fault) throw new Error(`binding ${i}: ${fault}`);
  }
  if (!actual.some((bytes) => bytes)) throw new Error('nothing is expected of this case');
}

/** Runs the cases of a folder; `report(name, fault)` is called after each, fault undefined if right. */
export async function runCases(device, folder, { filter = /^/, report = () => {} } = {}) {
  const cases = JSON.parse(fs.readFileSync(path.join(folder, 'cases.json'), 'utf8'));
  const data = fs.readFileSync(path.join(folder, 'cases.bin'));
  const pipelines = new Map();
  const counts = { passed: 0, failed: 0 };
  let lost;
  void device.lost.then(({ message }) => (lost = message));
  for (const test of cases.filter(({ name }) => filter.test(name))) {
    let fault;
    try {
      if (lost !== undefined) throw new Error(`the device is lost (${lost})`);
      await runCase(device, pipelines, test, data);
    } catch (thrown) {
      fault = thrown instanceof Error ? thrown.message : String(thrown);
    }
    counts[fault === undefined ? 'passed' : 'failed'] += 1;
    report(test.name, fault);
  }
  return { ...counts, pipeline_count: pipelines.size };
}

async function main(words) {
  const option = (name) =>
    words.find((word) => word.startsWith(`--${name}=`))?.slice(name.length + 3);
  const [folder] = words.filter((word) => !word.startsWith('--'));
  if (folder === undefined) throw new Error('Usage: run_cases.mjs FOLDER [--filter=REGEX] …');
  const size = option('subgroup-size');
  const { adapter, device } = await openDevice(size ? { subgroup_size: Number(size) } : {});
  const { subgroupMinSize, subgroupMaxSize, description } = adapter.info;
  console.log(`${description}, subgroups of ${subgroupMinSize} to ${subgroupMaxSize}`);
  const started_ms = performance.now();
  const counts = await runCases(device, folder, {
    filter: new RegExp(option('filter') ?? ''),
    report: (name, fault) => {
      if (fault !== undefined) console.log(`FAILED ${name}: ${fault}`);
      else if (!words.includes('--failures')) console.log(`ok     ${name}`);
    },
  });
  const seconds = ((performance.now() - started_ms) / 1000).toFixed(1);
  const { passed, failed, pipeline_count } = counts;
  console.log(`${passed} passed, ${failed} failed, ${pipeline_count} pipelines, ${seconds} s`);
  device.destroy();
  return failed === 0 && passed > 0 ? 0 : 1;
}

if (process.argv[1] === import.meta.filename) process.exit(await main(process.argv.slice(2)));
