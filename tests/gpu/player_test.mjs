// The player on a real device, driven as an engine module drives it: by its imports and structs in a linear
// memory. The dispatch lists are made by hand, with results that can be told.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { importGpu } from './bundle.mjs';
import { openDevice } from './device.mjs';

const kAdd = `
struct Params { first: u32, count: u32, amount: f32 }
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@group(0) @binding(2) var<uniform> params: Params;
@compute @workgroup_size(32) fn main(@builtin(global_invocation_id) id: vec3u) {
  if (id.x < params.count) {
    let i = params.first + id.x;
    y[i] = x[i] + params.amount;
  }
}`;
const kDouble = `
@group(0) @binding(0) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(32) fn main(@builtin(global_invocation_id) id: vec3u) {
  if (id.x < arrayLength(&y)) { y[id.x] *= 2; }
}`;
const kAccess = { read: 0, read_write: 1, uniform: 2 };
const kUsage = { activations: 1, params: 4 };
const kPageBytes = 4096;

let gpu;
let adapter;
before(async () => {
  gpu = await importGpu();
  const opened = await openDevice();
  opened.device.destroy();
  adapter = opened.gpu;
});

/** What an engine module does: it writes structs to its memory and calls the imports. */
class Driver {
  memory = new WebAssembly.Memory({ initial: 512, maximum: 1024 });
  reports = { pipelines: new Map(), tickets: [], errors: [] };
  #end = 64;
  #next_ticket = 1;

  static async open() {
    const found = await adapter.requestAdapter();
    const driver = new Driver();
    driver.device = await found.requestDevice();
    const linear = new gpu.LinearMemory(driver.memory);
    const { pipelines, tickets, errors } = driver.reports;
    driver.player = new gpu.GpuPlayer(driver.device, () => linear, {
      pipelineDone: (pipeline, is_ready) => pipelines.set(pipeline, is_ready),
      ticketDone: (ticket) => tickets.push(ticket),
      failed: (error) => errors.push(error),
    });
    driver.imports = driver.player.imports();
    return driver;
  }

  place(bytes) {
    const at = this.#end;
    new Uint8Array(this.memory.buffer, at, bytes.byteLength).set(new Uint8Array(bytes));
    this.#end = Math.ceil((at + bytes.byteLength) / 8) * 8;
    return at;
  }

  reserve(size_bytes) {
    return this.place(new ArrayBuffer(size_bytes));
  }

  floats(at, count) {
    return [...new Float32Array(this.memory.buffer, at, count)];
  }

  createPipeline(id, name, wgsl, access) {
    const encode = (text) => new TextEncoder().encode(text);
    const [name_bytes, code_bytes] = [encode(name), encode(wgsl)];
    const access_bytes = Uint8Array.from(access.map((one) => kAccess[one]));
    this.imports.create_pipeline(
      ...[id, this.place(name_bytes.slice().buffer), name_bytes.length],
      ...[this.place(code_bytes.slice().buffer), code_bytes.length],
      ...[this.place(access_bytes.buffer), access_bytes.length],
    );
  }

  createBindGroup(id, pipeline, bindings) {
    const view = new DataView(new ArrayBuffer(24 * bindings.length));
    bindings.forEach(({ buffer, size = kPageBytes, offset = 0 }, i) => {
      view.setFloat64(24 * i, offset, true);
      view.setFloat64(24 * i + 8, size, true);
      view.setUint32(24 * i + 16, buffer, true);
    });
    this.imports.create_bind_group(id, pipeline, this.place(view.buffer), bindings.length);
  }

  upload(buffer, offset, values) {
    this.imports.upload(buffer, offset, this.place(values.buffer), values.byteLength);
  }

  submit(dispatches, readbacks) {
    const list = Uint32Array.from(
      dispatches.flatMap(({ pipeline, group, params = 0, workgroups: [x, y = 1, z = 1] }) => [
        ...[pipeline, group, params, x, y, z],
      ]),
    );
    const view = new DataView(new ArrayBuffer(24 * readbacks.length));
    readbacks.forEach(({ buffer, offset, size, destination }, i) => {
      view.setFloat64(24 * i, offset, true);
      [buffer, size, destination, 0].forEach((word, k) =>
        view.setUint32(24 * i + 8 + 4 * k, word, true),
      );
    });
    const ticket = this.#next_ticket++;
    const at = [this.place(list.buffer), dispatches.length];
    this.imports.submit(ticket, ...at, this.place(view.buffer), readbacks.length);
    return ticket;
  }

  /** Waits for the ticket, within the test's own limit. */
  async until(ticket) {
    while (!this.reports.tickets.includes(ticket)) {
      await this.player.nextReport();
      if (this.player.failure) throw this.player.failure;
    }
  }
}

/** x = 1 … 8; first y[0..4) = x + 10, then y[4..8) = x + 100, each by params of its own; then y is doubled. */
async function makeList(driver) {
  driver.imports.create_buffer(0, kUsage.activations, kPageBytes);
  driver.imports.create_buffer(1, kUsage.activations, kPageBytes);
  driver.imports.create_buffer(2, kUsage.params, kPageBytes);
  driver.createPipeline(0, 'add', kAdd, ['read', 'read_write', 'uniform']);
  driver.createPipeline(1, 'double', kDouble, ['read_write']);
  const all = [{ buffer: 0 }, { buffer: 1 }, { buffer: 2, size: 64 }];
  driver.createBindGroup(0, 0, all);
  driver.createBindGroup(1, 1, [{ buffer: 1, size: 32 }]);
  driver.upload(
    0,
    0,
    Float32Array.from({ length: 8 }, (_, i) => i + 1),
  );
  const params = (first, count, amount) => {
    const view = new DataView(new ArrayBuffer(12));
    view.setUint32(0, first, true);
    view.setUint32(4, count, true);
    view.setFloat32(8, amount, true);
    return new Uint8Array(view.buffer);
  };
  driver.upload(2, 0, params(0, 4, 10));
  driver.upload(2, 256, params(4, 4, 100));
  await driver.player.settle();
  return [
    { pipeline: 0, group: 0, params: 0, workgroups: [1] },
    { pipeline: 0, group: 0, params: 256, workgroups: [1] },
    { pipeline: 1, group: 1, workgroups: [1] },
  ];
}
const kDoubled = [22, 24, 26, 28, 210, 212, 214, 216];

test('a list with dynamic offsets, in one pass in its order, and two read-backs', async () => {
  const driver = await Driver.open();
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
  const driver = await Driver.open();
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
  const driver = await Driver.open();
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
  const driver = await Driver.open();
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
  const driver = await Driver.open();
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
  const driver = await Driver.open();
  const list = await makeList(driver);
  const at = driver.reserve(32);
  await driver.until(driver.submit(list, [{ buffer: 1, offset: 0, size: 32, destination: at }]));
  assert.deepEqual(driver.floats(at, 8), kDoubled);
  driver.player.close();
});

test('after close nothing is reported', async () => {
  const driver = await Driver.open();
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
