// The player: the engine's Gpu port (engine/port/gpu.h) on WebGPU. It keeps buffers, pipelines and bind groups
// by the engine's numbers and plays its dispatch lists where they lie in linear memory.
//
// The engine calls it through the imports of "nonstop_gpu". None of them throws and none reports at once:
// what became of a call, good or bad, is reported later, when the engine is not running.
import {
  kNsGpuBindingSize,
  kNsGpuDispatchSize,
  kNsGpuReadbackSize,
  NsGpuAccess,
  NsGpuBufferUsage,
  readNsGpuBinding,
  readNsGpuReadback,
} from '../wasm/abi.gen.js';
import { EngineError, toEngineError } from '../wasm/error.js';
import type { LinearMemory } from '../wasm/memory.js';
import { isNode } from '../wasm/platform.js';
import { GpuCounter } from './counters.js';
import { Nudger } from './nudger.js';
import { ReadbackRing, type Readback } from './readback.js';
import { UploadGate } from './upload_gate.js';

const kMaxUploadBytes = 8 << 20;
/** By how much the news of a lost device may follow the first of its consequences. */
const kLossDelayMs = 200;
/** GPUBufferUsage and GPUShaderStage, which Node has not as globals. */
const kUsage = { copySrc: 0x04, copyDst: 0x08, uniform: 0x40, storage: 0x80 } as const;
const kCompute = 0x4;

const kBindingTypes = new Map<number, GPUBufferBindingLayout>([
  [NsGpuAccess.read, { type: 'read-only-storage' }],
  [NsGpuAccess.readWrite, { type: 'storage' }],
  [NsGpuAccess.uniform, { type: 'uniform', hasDynamicOffset: true }],
]);

/** To the engine; never called while it runs. */
export interface GpuReports {
  pipelineDone(pipeline: number, is_ready: boolean): void;
  ticketDone(ticket: number): void;
  failed(error: EngineError): void;
}

interface Pipeline {
  name: string;
  layout: GPUBindGroupLayout;
  has_params: boolean;
  /** Undefined while it compiles. */
  compiled: GPUComputePipeline | undefined;
}

export class GpuPlayer {
  readonly counter = new GpuCounter();
  readonly #device: GPUDevice;
  readonly #linearMemory: () => LinearMemory;
  readonly #reports: GpuReports;
  readonly #gate: UploadGate;
  readonly #ring: ReadbackRing;
  readonly #nudger: Nudger;
  readonly #buffers: (GPUBuffer | undefined)[] = [];
  readonly #pipelines: Pipeline[] = [];
  readonly #groups: (GPUBindGroup | undefined)[] = [];
  /** What is under way and will be reported. */
  readonly #pending = new Set<Promise<void>>();
  #waiting: (() => void)[] = [];
  /** Submissions whose read-backs are awaited. */
  #awaited_count = 0;
  #words: Uint32Array = new Uint32Array(0);
  #failure: EngineError | undefined;
  #is_closed = false;

  /** The memory is that of the instance whose imports these are: it is there at the first call. */
  constructor(device: GPUDevice, memory: () => LinearMemory, reports: GpuReports) {
    this.#device = device;
    this.#linearMemory = memory;
    this.#reports = reports;
    this.#gate = new UploadGate(device.queue, kMaxUploadBytes);
    this.#ring = new ReadbackRing(device, memory);
    this.#nudger = new Nudger(device.queue, () => this.#isLastAwaited());
    device.addEventListener('uncapturederror', this.#onUncaptured);
    void device.lost.then(({ reason, message }) => {
      this.#fail(
        new EngineError(
          'backend_failed',
          `The GPU device was lost (${reason}: ${messageOf(message)}).`,
        ),
      );
    });
  }

  get #memory(): LinearMemory {
    return this.#linearMemory();
  }

  readonly #onUncaptured = (event: GPUUncapturedErrorEvent): void => {
    event.preventDefault();
    this.#fail(toGpuError('The GPU refused a command', event.error));
  };

  /** The imports of module "nonstop_gpu" (engine/abi/abi.h). */
  imports(): WebAssembly.ModuleImports {
    return {
      create_buffer: this.#guard('A buffer', (buffer: number, usage: number, size_bytes: number) =>
        this.#createBuffer(buffer, usage, size_bytes),
      ),
      destroy_buffer: this.#guard('A buffer', (buffer: number) => {
        this.#buffers[buffer]?.destroy();
        this.#buffers[buffer] = undefined;
      }),
      create_pipeline: this.#guard('A pipeline', (...words: number[]) =>
        this.#createPipeline(words),
      ),
      create_bind_group: this.#guard('A bind group', (...words: number[]) =>
        this.#createBindGroup(words),
      ),
      destroy_bind_group: this.#guard('A bind group', (group: number) => {
        this.#groups[group] = undefined;
      }),
      upload: this.#guard('An upload', (buffer: number, offset: number, at: number, size: number) =>
        this.#upload(buffer, offset, at >>> 0, size >>> 0),
      ),
      submit: this.#guard('A submission', (...words: number[]) => this.#submit(words)),
    };
  }

  /** An import of the engine: what it throws becomes a report, since a throw would end the engine. */
  #guard(what: string, action: (...words: number[]) => void): (...words: number[]) => void {
    return (...words) => {
      if (this.#failure || this.#is_closed) return;
      try {
        action(...words);
      } catch (thrown) {
        this.#track(Promise.reject(toGpuError(`${what} failed`, thrown)));
      }
    };
  }

  #track(work: Promise<void>): void {
    const tracked = work
      .catch(async (thrown: unknown) => {
        // With a lost device everything under way fails: its loss is the fault to be told.
        await Promise.race([this.#device.lost, pause(kLossDelayMs)]);
        this.#fail(toGpuError('The GPU failed', thrown));
      })
      .finally(() => this.#pending.delete(tracked));
    this.#pending.add(tracked);
  }

  #fail(error: EngineError): void {
    if (this.#failure || this.#is_closed) return;
    this.#failure = error;
    this.#tell(() => this.#reports.failed(error));
  }

  #tell(report: () => void): void {
    if (this.#is_closed) return;
    report();
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const resolve of waiting) resolve();
  }

  /** Resolves after the next report. */
  nextReport(): Promise<void> {
    return new Promise((resolve) => void this.#waiting.push(resolve));
  }

  /** The first fault, after which nothing more is played. */
  get failure(): EngineError | undefined {
    return this.#failure;
  }

  /** Runs `action` between error scopes; the first error rejects. */
  async #scoped(what: string, action: () => Promise<void> | void): Promise<void> {
    const device = this.#device;
    device.pushErrorScope('out-of-memory');
    device.pushErrorScope('validation');
    let done: Promise<void> | void;
    let scopes: Promise<(GPUError | null)[]>;
    try {
      done = action();
    } finally {
      scopes = Promise.all([device.popErrorScope(), device.popErrorScope()]);
    }
    // The action's own error says more; a scope's is told where there is none.
    const [[validation, memory]] = await Promise.all([scopes, done]);
    if (validation) throw toGpuError(what, validation);
    if (memory) throw new EngineError('out_of_memory', `${what} (${messageOf(memory)}).`);
  }

  #createBuffer(id: number, usage: number, size_bytes: number): void {
    const is_params = usage === NsGpuBufferUsage.params;
    const made = this.#scoped(`A GPU buffer of (${size_bytes}) bytes failed`, () => {
      this.#buffers[id] = this.#device.createBuffer({
        label: `buffer ${id}`,
        size: size_bytes,
        usage: (is_params ? kUsage.uniform : kUsage.storage) | kUsage.copySrc | kUsage.copyDst,
      });
    });
    // A size past a limit is a validation error to WebGPU.
    this.#track(
      made.catch((thrown: unknown) => {
        const { message } = toEngineError(thrown);
        throw new EngineError('out_of_memory', message, { cause: thrown });
      }),
    );
  }

  #buffer(id: number): GPUBuffer {
    const buffer = this.#buffers[id];
    if (!buffer) throw new EngineError('internal', `There is no GPU buffer (${id}).`);
    return buffer;
  }

  #pipeline(id: number): Pipeline {
    const pipeline = this.#pipelines[id];
    if (!pipeline) throw new EngineError('internal', `There is no pipeline (${id}).`);
    return pipeline;
  }

  #createPipeline(words: number[]): void {
    const [id, name_at, name_size, code_at, code_size, access_at, access_count, is_optional] =
      unsigned(words);
    const name = this.#memory.text(name_at, name_size);
    const code = this.#memory.text(code_at, code_size);
    const access = [...this.#memory.bytes(access_at, access_count)];
    const entries = access.map((one, binding) => {
      const buffer = kBindingTypes.get(one);
      if (!buffer) throw new EngineError('internal', `Pipeline "${name}": access (${one})?`);
      return { binding, visibility: kCompute, buffer };
    });
    const layout = this.#device.createBindGroupLayout({ label: name, entries });
    const has_params = access.includes(NsGpuAccess.uniform);
    const pipeline: Pipeline = { name, layout, has_params, compiled: undefined };
    this.#pipelines[id] = pipeline;
    this.#track(
      this.#compile(pipeline, code).then(
        () => this.#tell(() => this.#reports.pipelineDone(id, true)),
        (thrown: unknown) => {
          this.#tell(() => this.#reports.pipelineDone(id, false));
          if (is_optional === 0) throw thrown;
        },
      ),
    );
  }

  async #compile(pipeline: Pipeline, code: string): Promise<void> {
    const { name: label, layout } = pipeline;
    const device = this.#device;
    await this.#scoped(`Pipeline "${label}" failed`, async () => {
      const module = device.createShaderModule({ label, code });
      try {
        pipeline.compiled = await device.createComputePipelineAsync({
          label,
          layout: device.createPipelineLayout({ label, bindGroupLayouts: [layout] }),
          compute: { module, entryPoint: 'main' },
        });
      } catch (thrown) {
        const { messages } = await module.getCompilationInfo();
        const first = messages.find(({ type }) => type === 'error');
        const detail = first ? `line ${first.lineNum}: ${first.message}` : messageOf(thrown);
        throw new EngineError('backend_failed', `Pipeline "${label}" failed (${detail}).`, {
          cause: thrown,
        });
      }
    });
  }

  #createBindGroup(words: number[]): void {
    const [id, pipeline_id, at, count] = unsigned(words);
    const { name: label, layout } = this.#pipeline(pipeline_id);
    const { view } = this.#memory;
    const entries = Array.from({ length: count }, (_, binding) => {
      const given = readNsGpuBinding(view, at + kNsGpuBindingSize * binding);
      const { offset_bytes: offset, size_bytes: size } = given;
      return { binding, resource: { buffer: this.#buffer(given.buffer), offset, size } };
    });
    this.#groups[id] = this.#device.createBindGroup({ label, layout, entries });
  }

  #upload(buffer: number, offset_bytes: number, at: number, size_bytes: number): void {
    const { buffer: memory } = this.#memory.view;
    this.#device.queue.writeBuffer(this.#buffer(buffer), offset_bytes, memory, at, size_bytes);
    this.#gate.add(size_bytes);
    this.counter.addUpload();
  }

  #submit(words: number[]): void {
    const [ticket, dispatches_at, dispatch_count, readbacks_at, readback_count] = unsigned(words);
    const encoder = this.#device.createCommandEncoder();
    if (dispatch_count > 0) this.#encode(encoder, dispatches_at, dispatch_count);
    const readbacks = this.#readReadbacks(readbacks_at, readback_count);
    const read = readbacks.length > 0 ? this.#ring.encode(encoder, readbacks) : undefined;
    this.#device.queue.submit([encoder.finish()]);
    const readback_bytes = readbacks.reduce((sum, one) => sum + one.size_bytes, 0);
    this.counter.addSubmit(ticket, dispatch_count, readback_bytes);
    if (read) this.#track(this.#finish(ticket, read));
  }

  /** What follows the last submission but one makes the browser look at it. */
  #isLastAwaited(): boolean {
    return !isNode && this.#awaited_count === 1 && !this.#failure && !this.#is_closed;
  }

  /** One pass. The list is read where it lies, a dynamic offset too. */
  #encode(encoder: GPUCommandEncoder, at: number, count: number): void {
    if (this.#words.buffer !== this.#memory.view.buffer) {
      this.#words = new Uint32Array(this.#memory.view.buffer);
    }
    const words = this.#words;
    const word_count = kNsGpuDispatchSize / 4;
    const pass = encoder.beginComputePass();
    let last = -1;
    let has_params = false;
    const begin = at / 4;
    for (let i = begin; i < begin + count * word_count; i += word_count) {
      const id = words[i] ?? 0;
      if (id !== last) {
        const pipeline = this.#pipeline(id);
        if (!pipeline.compiled) {
          throw new EngineError('internal', `Pipeline "${pipeline.name}" is not ready.`);
        }
        pass.setPipeline(pipeline.compiled);
        last = id;
        has_params = pipeline.has_params;
      }
      const group = this.#groups[words[i + 1] ?? 0];
      if (!group) throw new EngineError('internal', `There is no bind group (${words[i + 1]}).`);
      if (has_params) pass.setBindGroup(0, group, words, i + 2, 1);
      else pass.setBindGroup(0, group);
      pass.dispatchWorkgroups(words[i + 3] ?? 0, words[i + 4], words[i + 5]);
    }
    pass.end();
  }

  #readReadbacks(at: number, count: number): Readback[] {
    const { view } = this.#memory;
    return Array.from({ length: count }, (_, i) => {
      const given = readNsGpuReadback(view, at + kNsGpuReadbackSize * i);
      const { offset_bytes, size_bytes, destination_ptr: destination } = given;
      return { buffer: this.#buffer(given.buffer), offset_bytes, size_bytes, destination };
    });
  }

  async #finish(ticket: number, read: () => Promise<void>): Promise<void> {
    this.#awaited_count += 1;
    this.#nudger.begin();
    try {
      await read();
    } finally {
      this.#awaited_count -= 1;
    }
    this.#nudger.begin();
    this.counter.endTicket(ticket);
    this.#tell(() => this.#reports.ticketDone(ticket));
  }

  /** Uploaded, but not yet taken by the queue. */
  get outstanding_bytes(): number {
    return this.#gate.outstanding_bytes;
  }

  /** Lets a loader go on when no more than 8 MiB of its uploads are outstanding; throws a fault. */
  async passUploads(): Promise<void> {
    await this.#gate.pass();
    if (this.#failure) throw this.#failure;
  }

  /** Waits for all buffers, pipelines and read-backs that were asked for; throws a fault. */
  async settle(): Promise<void> {
    // Of a lost device some promises never settle (Dawn's popErrorScope in Node).
    while (this.#pending.size > 0 && !this.#failure) {
      await Promise.race([Promise.all(this.#pending), this.nextReport()]);
    }
    if (this.#failure) throw this.#failure;
  }

  /** Ends all work; nothing is reported any more. Resolves when nothing of it is under way. */
  async close(): Promise<void> {
    this.#destroy();
    while (this.#pending.size > 0) await Promise.all(this.#pending);
  }

  #destroy(): void {
    if (this.#is_closed) return;
    this.#is_closed = true;
    this.#device.removeEventListener('uncapturederror', this.#onUncaptured);
    this.#ring.destroy();
    for (const buffer of this.#buffers) buffer?.destroy();
    this.#device.destroy();
  }
}

function pause(time_ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, time_ms));
}

/** Parameters of an import as the uint32_t that they are; absent ones are 0. */
function unsigned(
  words: number[],
): [number, number, number, number, number, number, number, number] {
  const at = (i: number) => (words[i] ?? 0) >>> 0;
  return [at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7)];
}

/** The first line of what a browser says; Dawn adds how it came there. */
function messageOf(thrown: unknown): string {
  const has_message = typeof thrown === 'object' && thrown !== null && 'message' in thrown;
  const text = String(has_message ? thrown.message : thrown);
  return (text.split('\n')[0] ?? '').replace(/\.$/, '');
}

function toGpuError(what: string, thrown: unknown): EngineError {
  if (thrown instanceof EngineError) return thrown;
  return new EngineError('backend_failed', `${what} (${messageOf(thrown)}).`, { cause: thrown });
}
