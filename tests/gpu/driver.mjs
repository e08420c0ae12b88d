// Drives the player as an engine module does: by its imports, with structs in a linear memory. For Node and
// for a worker of a browser.
import { GpuPlayer } from '../../web/src/gpu/player.js';
import { LinearMemory } from '../../web/src/wasm/memory.js';

export const kAdd = `
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
export const kDouble = `
@group(0) @binding(0) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(32) fn main(@builtin(global_invocation_id) id: vec3u) {
  if (id.x < arrayLength(&y)) { y[id.x] *= 2; }
}`;
const kAccess = { read: 0, read_write: 1, uniform: 2 };
export const kUsage = { activations: 1, params: 4 };
export const kPageBytes = 4096;

/** What an engine module does: it writes structs to its memory and calls the imports. */
export class Driver {
  memory = new WebAssembly.Memory({ initial: 512, maximum: 1024 });
  reports = { pipelines: new Map(), tickets: [], errors: [] };
  #end = 64;
  #next_ticket = 1;

  constructor(device) {
    this.device = device;
    const linear = new LinearMemory(this.memory);
    const { pipelines, tickets, errors } = this.reports;
    this.player = new GpuPlayer(device, () => linear, {
      pipelineDone: (pipeline, is_ready) => pipelines.set(pipeline, is_ready),
      ticketDone: (ticket) => tickets.push(ticket),
      failed: (error) => errors.push(error),
    });
    this.imports = this.player.imports();
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
export async function makeList(driver) {
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
export const kDoubled = [22, 24, 26, 28, 210, 212, 214, 216];
