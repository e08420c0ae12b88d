// How fast the GPU reads its own memory, by read.wgsl, in Node and in a page. Times are the host's, over so
// many passes that starting and waiting do not count: a browser rounds the GPU's own.
import { EngineError } from '../../web/src/api/index.js';
import { findAdapter, openDevice } from '../../web/src/gpu/adapter.js';
import type { Case, Sample } from '../common/cases.js';
import type { About, Runner } from '../common/runner.js';
import { kReadBytes } from './plan.js';
import kReadWgsl from './read.wgsl';

/** Tried once; the fastest is kept. The last fills a large GPU (16 a multiprocessor of an H200). */
const kWorkgroupCounts = [528, 1056, 2112, 4224];
const kWorkgroupSize = 256;
/** Of one submission; a long one may be taken for a hang. */
const kLongestMs = 50;
const kMostPasses = 4096;
/**
 * A GPU that reads kReadBytes in less has so large a cache that a part of them stays there: it reads so many in
 * their place.
 */
const kFastPassMs = 1;
const kFastReadBytes = 4 * kReadBytes;
/** GPUBufferUsage, which Node has not as a global. */
const kUsage = { copyDst: 0x08, storage: 0x80 } as const;

export class GpuReadRunner implements Runner {
  readonly about: About;
  readonly #device: GPUDevice;
  readonly #reader: Reader;

  private constructor(device: GPUDevice, reader: Reader, about: About) {
    this.#device = device;
    this.#reader = reader;
    this.about = about;
  }

  /** Of a buffer of kReadBytes, or as large as the limits allow. */
  static async start(): Promise<GpuReadRunner> {
    const found = await findAdapter();
    if ('missing' in found) {
      throw new EngineError('backend_failed', `The GPU cannot be read: ${found.missing}.`);
    }
    const { device } = await openDevice(found.adapter, { default_limits: false, without: [] });
    const { maxBufferSize, maxStorageBufferBindingSize } = device.limits;
    const most_bytes = Math.min(maxBufferSize, maxStorageBufferBindingSize);
    let size_bytes = Math.min(kReadBytes, most_bytes);
    let reader = await Reader.make(device, size_bytes);
    if (reader.pass_ms < kFastPassMs && most_bytes >= kFastReadBytes) {
      reader.destroy();
      size_bytes = kFastReadBytes;
      reader = await Reader.make(device, size_bytes);
    }
    const { workgroup_count } = reader;
    const about = { adapter: found.report, buffer_bytes: size_bytes, workgroup_count };
    return new GpuReadRunner(device, reader, about);
  }

  async run(one: Case): Promise<Sample> {
    if (one.kind !== 'read') throw new TypeError(`Reading has no case "${one.kind}".`);
    return { 'GB/s': await this.#reader.measure(one.seconds * 1000) };
  }

  async close(): Promise<void> {
    this.#device.destroy();
  }
}

class Reader {
  readonly #device: GPUDevice;
  readonly #pipeline: GPUComputePipeline;
  readonly #group: GPUBindGroup;
  readonly #size_bytes: number;
  readonly #data: GPUBuffer;
  workgroup_count = kWorkgroupCounts[0] ?? 1;
  /** Of one pass with that many workgroups. */
  #pass_ms = Infinity;

  private constructor(device: GPUDevice, pipeline: GPUComputePipeline, size_bytes: number) {
    this.#device = device;
    this.#pipeline = pipeline;
    this.#size_bytes = size_bytes;
    const data = device.createBuffer({ size: size_bytes, usage: kUsage.storage | kUsage.copyDst });
    fill(device, data, size_bytes);
    this.#data = data;
    const sums = device.createBuffer({
      size: 4 * Math.max(...kWorkgroupCounts),
      usage: kUsage.storage,
    });
    this.#group = device.createBindGroup({
      layout: pipeline.getBindGroupLayout(0),
      entries: [data, sums].map((buffer, binding) => ({
        binding,
        resource: { buffer },
      })),
    });
  }

  static async make(device: GPUDevice, size_bytes: number): Promise<Reader> {
    const pipeline = await device.createComputePipelineAsync({
      layout: 'auto',
      compute: {
        module: device.createShaderModule({ code: kReadWgsl }),
        constants: { workgroup_size: kWorkgroupSize },
      },
    });
    const reader = new Reader(device, pipeline, size_bytes);
    await reader.#tune();
    return reader;
  }

  async #tune(): Promise<void> {
    // The first pass compiles and brings the pages.
    await this.#time(1, 1, this.workgroup_count);
    for (const count of kWorkgroupCounts) {
      const pass_ms = await this.#passTime(count);
      if (pass_ms >= this.#pass_ms) continue;
      this.#pass_ms = pass_ms;
      this.workgroup_count = count;
    }
  }

  /** Of one in a submission of so many that starting and waiting hardly count. */
  async #passTime(workgroups: number): Promise<number> {
    let passes = 1;
    let time_ms = await this.#time(1, passes, workgroups);
    while (time_ms < kLongestMs / 2 && passes < kMostPasses) {
      passes = Math.min(kMostPasses, Math.ceil((passes * kLongestMs) / time_ms));
      time_ms = await this.#time(1, passes, workgroups);
    }
    return time_ms / passes;
  }

  get pass_ms(): number {
    return this.#pass_ms;
  }

  destroy(): void {
    this.#data.destroy();
  }

  /** GB/s over at least about `least_ms`. */
  async measure(least_ms: number): Promise<number> {
    const fitting = Math.round(kLongestMs / this.#pass_ms);
    const passes = Math.min(kMostPasses, Math.max(1, fitting));
    const submissions = Math.max(1, Math.ceil(least_ms / (passes * this.#pass_ms)));
    const time_ms = await this.#time(submissions, passes, this.workgroup_count);
    return (this.#size_bytes * passes * submissions) / time_ms / 1e6;
  }

  async #time(submissions: number, passes: number, workgroups: number): Promise<number> {
    const { queue } = this.#device;
    await queue.onSubmittedWorkDone();
    const begin_ms = performance.now();
    for (let k = 0; k < submissions; k++) {
      const encoder = this.#device.createCommandEncoder();
      const pass = encoder.beginComputePass();
      pass.setPipeline(this.#pipeline);
      pass.setBindGroup(0, this.#group);
      for (let i = 0; i < passes; i++) pass.dispatchWorkgroups(workgroups);
      pass.end();
      queue.submit([encoder.finish()]);
    }
    await queue.onSubmittedWorkDone();
    return performance.now() - begin_ms;
  }
}

const kFillBytes = 4 * 2 ** 20;

/** Memory that was never written may be compressed, or no memory at all. */
function fill({ queue }: GPUDevice, buffer: GPUBuffer, size_bytes: number): void {
  let state = 1;
  const words = Uint32Array.from({ length: kFillBytes / 4 }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state;
  });
  for (let at = 0; at < size_bytes; at += kFillBytes) {
    queue.writeBuffer(buffer, at, words, 0, Math.min(kFillBytes, size_bytes - at) / 4);
  }
}
