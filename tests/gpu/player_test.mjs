// The player on a real device, driven as an engine module drives it: by its imports and structs in a linear
// memory. The dispatch lists are made by hand, with results that can be told.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { importGpu } from './bundle.mjs';
import { openDevice } from './device.mjs';

const gpu = await importGpu();
const { kAdd, kDouble, kDoubled, kPageBytes, kUsage, makeList } = gpu;

let adapter;
before(async () => {
  const opened = await openDevice();
  opened.device.destroy();
  adapter = opened.gpu;
});

async function openDriver() {
  const found = await adapter.requestAdapter();
  return new gpu.Driver(await found.requestDevice());
}

test('a list with dynamic offsets, in one pass in its order, and two read-backs', async () => {
  const driver = await openDriver();
  const list = await makeList(driver);
  assert.deepEqual([...driver.reports.pipelines].sort(), [
    [0, true],
    [1, true],
  ]);
  const whole = driver.reserve(32);
  const part = driver.reserve(8);
  const ticket = driver.submit(list, [
    { buffer: 1, offset: 0, size: 32, destination: whole },
    { buffer: 0, offset: 8, size: 8, destination: part },
  ]);
  driver.memory.grow(64); // what the engine does while the GPU works
  await driver.until(ticket);
  assert.deepEqual(driver.floats(whole, 8), kDoubled);
  assert.deepEqual(driver.floats(part, 2), [3, 4]);
  assert.deepEqual(driver.reports.errors, []);
  driver.player.close();
});

test('submissions overlap, end in order, and are counted when they have ended', async () => {
  const driver = await openDriver();
  const list = await makeList(driver);
  const at = [0, 1, 2].map(() => driver.reserve(32));
  const readback = (destination) => [{ buffer: 1, offset: 0, size: 32, destination }];
  driver.submit(list, []); // no read-back: it ends with the next one
  driver.submit(list, readback(at[0]));
  assert.equal(driver.player.counter.counts.submits, 0);
  driver.submit([list[2]], readback(at[1]));
  const last = driver.submit([list[2]], readback(at[2]));
  await driver.until(last);
  assert.deepEqual(driver.reports.tickets, [2, 3, 4]);
  assert.deepEqual(driver.floats(at[0], 8), kDoubled);
  assert.deepEqual(
    driver.floats(at[2], 8),
    kDoubled.map((value) => value * 4),
  );
  assert.deepEqual(driver.player.counter.counts, {
    dispatches: 8,
    submits: 4,
    waits: 1,
    uploads: 3,
    readback_bytes: 96,
  });
  driver.player.close();
});

test('a bind group may be made anew under its number, and a buffer destroyed', async () => {
  const driver = await openDriver();
  const list = await makeList(driver);
  driver.imports.create_buffer(3, kUsage.activations, kPageBytes);
  driver.imports.destroy_bind_group(0);
  driver.createBindGroup(0, 0, [{ buffer: 0 }, { buffer: 3 }, { buffer: 2, size: 64 }]);
  driver.imports.destroy_bind_group(1);
  driver.imports.destroy_buffer(1);
  const at = driver.reserve(32);
  const readbacks = [{ buffer: 3, offset: 0, size: 32, destination: at }];
  await driver.until(driver.submit(list.slice(0, 2), readbacks));
  assert.deepEqual(driver.floats(at, 8), [11, 12, 13, 14, 105, 106, 107, 108]);
  driver.player.close();
});

test('uploads pass a gate of 8 MiB and arrive whole', async () => {
  const driver = await openDriver();
  const size = 1 << 20;
  driver.imports.create_buffer(0, kUsage.activations, 48 * size);
  const at = driver.reserve(size);
  for (let piece = 0; piece < 48; piece++) {
    new Uint32Array(driver.memory.buffer, at, size / 4).fill(piece);
    driver.imports.upload(0, piece * size, at, size);
    await driver.player.passUploads();
    assert.ok(driver.player.outstanding_bytes <= 8 * size);
  }
  const found = driver.reserve(48 * 4);
  const readbacks = Array.from({ length: 48 }, (_, piece) => ({
    ...{ buffer: 0, offset: (piece + 1) * size - 4, size: 4, destination: found + 4 * piece },
  }));
  await driver.until(driver.submit([], readbacks));
  assert.deepEqual(
    [...new Uint32Array(driver.memory.buffer, found, 48)],
    Array.from({ length: 48 }, (_, piece) => piece),
  );
  driver.player.close();
});

/** Does `action`, and gives the one error that comes of it. */
async function failureOf(action) {
  const driver = await openDriver();
  const list = await makeList(driver);
  await action(driver, list);
  if (!driver.player.failure) await driver.player.nextReport();
  await assert.rejects(driver.player.settle(), driver.player.failure);
  assert.deepEqual(driver.reports.errors, [driver.player.failure]);
  const { failure } = driver.player;
  driver.imports.create_buffer(9, kUsage.activations, kPageBytes); // nothing is played any more
  driver.player.close();
  return failure;
}

test('a pipeline that does not compile is told by name and line', async () => {
  let reports;
  const failure = await failureOf(async (driver) => {
    ({ reports } = driver);
    driver.createPipeline(7, 'broken', 'const a = 1;\nfn main( {', ['read']);
    await driver.player.settle().catch(() => {});
  });
  assert.equal(failure.code, 'backend_failed');
  assert.match(failure.message, /^Pipeline "broken" failed \(.*\)\.$/s);
  assert.equal(reports.pipelines.get(7), false);
});

test('a pipeline that does not fit its bindings fails', async () => {
  const failure = await failureOf(async (driver) => {
    driver.createPipeline(7, 'unfit', kAdd, ['read', 'read']);
    await driver.player.settle().catch(() => {});
  });
  assert.equal(failure.code, 'backend_failed');
  assert.match(failure.message, /^Pipeline "unfit" failed/);
});

test('an allocation past the limits is out of memory', async () => {
  const failure = await failureOf((driver) => driver.imports.create_buffer(5, 0, 2 ** 40));
  assert.equal(failure.code, 'out_of_memory');
  assert.match(failure.message, /^A GPU buffer of \(1099511627776\) bytes failed \(/);
});

test('a command that the device refuses is an error of the backend', async () => {
  const failure = await failureOf((driver, list) =>
    driver.submit([{ ...list[0], workgroups: [65_536] }], []),
  );
  assert.equal(failure.code, 'backend_failed');
});

test('what is not there is a fault of ours', async () => {
  const absent = await failureOf((driver) =>
    driver.submit([{ pipeline: 0, group: 44, workgroups: [1] }], []),
  );
  assert.equal(absent.code, 'internal');
  assert.equal(absent.message, 'There is no bind group (44).');
  const early = await failureOf((driver, list) => {
    driver.createPipeline(7, 'late', kDouble, ['read_write']);
    driver.submit([{ ...list[2], pipeline: 7 }], []);
  });
  assert.equal(early.message, 'Pipeline "late" is not ready.');
});

test('a lost device is an error, also while a read-back is awaited, and the next one works', async () => {
  const failure = await failureOf(async (driver, list) => {
    const destination = driver.reserve(32);
    driver.submit(list, [{ buffer: 1, offset: 0, size: 32, destination }]);
    driver.device.destroy();
  });
  assert.equal(failure.code, 'backend_failed');
  assert.match(failure.message, /^The GPU device was lost \(destroyed: /);
  const driver = await openDriver();
  const list = await makeList(driver);
  const at = driver.reserve(32);
  await driver.until(driver.submit(list, [{ buffer: 1, offset: 0, size: 32, destination: at }]));
  assert.deepEqual(driver.floats(at, 8), kDoubled);
  driver.player.close();
});

test('after close nothing is reported', async () => {
  const driver = await openDriver();
  const list = await makeList(driver);
  const destination = driver.reserve(32);
  driver.submit(list, [{ buffer: 1, offset: 0, size: 32, destination }]);
  driver.player.close();
  driver.player.close();
  await driver.device.lost;
  await driver.player.settle();
  assert.deepEqual(driver.reports.tickets, []);
  assert.deepEqual(driver.reports.errors, []);
});

test('the self-test passes here, and a device that is lost fails it', async () => {
  const found = await adapter.requestAdapter();
  const device = await found.requestDevice();
  assert.equal(await gpu.selfTestFault(device), undefined);
  device.destroy();
  assert.match(await gpu.selfTestFault(device), /^its self-test failed/);
});

test('this adapter is known as software: auto leaves it, forcing takes it', async () => {
  const report = gpu.describeAdapter(await adapter.requestAdapter());
  assert.notEqual(report.software, null);
  assert.match(gpu.adapterObstacle({ report }, false), /is a software adapter/);
  assert.equal(gpu.adapterObstacle({ report }, true), undefined);
});

test('a device has the limits and features of its adapter, or the defaults where wished', async () => {
  const raised = await gpu.openDevice(await adapter.requestAdapter(), {
    default_limits: false,
    without: [],
  });
  assert.equal(raised.f16, true);
  assert.ok(raised.limits.max_workgroup_storage_bytes > 16_384);
  const plain = await gpu.openDevice(await adapter.requestAdapter(), {
    default_limits: true,
    without: ['shader-f16', 'subgroups'],
  });
  assert.equal(plain.limits.max_workgroup_storage_bytes, 16_384);
  assert.deepEqual([plain.f16, plain.subgroups], [false, false]);
  raised.device.destroy();
  plain.device.destroy();
});
