// EngineCore: the module's functions as typed methods. It lives in the engine worker, is synchronous,
// and turns negative statuses and traps into EngineErrors. After a trap the instance is not used
// again: its memory may be in any state.
import type { AdapterReport, OpenedDevice } from '../gpu/adapter.js';
import {
  ErrorCode,
  kNsEngineOptionsSize,
  kNsGpuAdapterSize,
  kNsLogitBiasSize,
  kNsRequestSize,
  kNsStatsSize,
  NsBackend,
  NsActivationType,
  NsGpuFeature,
  NsKvType,
  NsPumpStatus,
  NsRequestFlag,
  readNsStats,
  writeNsEngineOptions,
  writeNsGpuAdapter,
  writeNsLogitBias,
  writeNsRequest,
  type NsExports,
  type NsGpuExports,
  type NsStats,
} from './abi.gen.js';
import { EngineError, errorCodeName } from './error.js';
import { decodeEvents, type EventRecord } from './events.js';
import type { EngineInstance } from './instance.js';
import { CallBlock, checkId, encodeUtf8, type LinearMemory } from './memory.js';

export type KvType = keyof typeof NsKvType;
export type ActivationType = keyof typeof NsActivationType;
export type EngineStats = NsStats;

export interface CoreOptions {
  backend: keyof typeof NsBackend;
  thread_count: number;
  context_length: number;
  kv: KvType;
  activations: ActivationType;
  max_sequence_count: number;
  prefill_chunk: number;
  plan_name: string;
}

export interface SamplingValues {
  temperature: number;
  top_k: number;
  top_p: number;
  min_p: number;
  repeat_penalty: number;
  presence_penalty: number;
  frequency_penalty: number;
  penalty_last_n: number;
  seed: number;
}

export interface CoreRequest extends SamplingValues {
  prompt_ids: readonly number[];
  forced_ids: readonly number[];
  max_tokens: number;
  top_logprobs: number;
  ignore_eos: boolean;
  special_text: boolean;
  stop: readonly string[];
  logit_bias: readonly { token_id: number; bias: number }[];
}

export const kPlanParts = { graph: 0, steps: 1, memory: 2 } as const;
export type PlanPart = keyof typeof kPlanParts;

export const kCommit = { more: 0, header: 1, file: 2 } as const;

/** What a pump leaves: nothing to do, more to do at once, or more once the GPU has reported. */
export type PumpState = 'idle' | 'more' | 'wait';

const kPumpStates: Record<number, PumpState> = {
  [NsPumpStatus.idle]: 'idle',
  [NsPumpStatus.moreWork]: 'more',
  [NsPumpStatus.waitGpu]: 'wait',
};

export class EngineCore {
  readonly #instance: EngineInstance;
  #trap: EngineError | undefined;

  constructor(instance: EngineInstance) {
    this.#instance = instance;
  }

  get #memory(): LinearMemory {
    return this.#instance.memory;
  }

  /** True after a trap: only a new instance helps. */
  get broken(): boolean {
    return this.#trap !== undefined;
  }

  #call<T>(use: (exports: NsExports) => T): T {
    if (this.#trap) throw this.#trap;
    try {
      return use(this.#instance.exports);
    } catch (thrown) {
      if (thrown instanceof EngineError) throw thrown;
      const detail = this.#instance.lastError() || String(thrown);
      this.#trap = new EngineError(
        'internal',
        `The engine stopped on a fault of ours (${detail}).`,
        {
          cause: thrown,
        },
      );
      throw this.#trap;
    }
  }

  /** A call that answers >= 0, or -(ErrorCode) with a sentence. */
  #check(use: (exports: NsExports) => number): number {
    return this.#call((exports) => {
      const status = use(exports);
      if (status >= 0) return status;
      const message = this.#memory.text(exports.ns_error_ptr(), exports.ns_error_size());
      throw new EngineError(errorCodeName(-status), message);
    });
  }

  #block<T>(block: CallBlock, use: (base: number) => T): T {
    return this.#call((exports) => block.place(exports, this.#memory, use));
  }

  #resultText(): string {
    return this.#call((exports) =>
      this.#memory.text(exports.ns_result_ptr(), exports.ns_result_size()),
    );
  }

  create(options: CoreOptions): void {
    const block = new CallBlock();
    const name = encodeUtf8(options.plan_name);
    const name_at = block.addBytes(name);
    const at: number = block.add(kNsEngineOptionsSize, (memory, here) =>
      writeNsEngineOptions(memory.view, here, {
        backend: NsBackend[options.backend],
        thread_count: options.thread_count,
        context_length: options.context_length,
        kv_type: NsKvType[options.kv],
        activation_type: NsActivationType[options.activations],
        max_sequence_count: options.max_sequence_count,
        prefill_chunk: options.prefill_chunk,
        plan_name_ptr: here - at + name_at,
        plan_name_size: name.length,
      }),
    );
    this.#block(block, (base) => this.#check((exports) => exports.ns_create(base + at)));
  }

  destroy(): void {
    if (!this.#trap) this.#call((exports) => exports.ns_destroy());
  }

  loadBegin(file_index: number, size_bytes: number): void {
    this.#check((exports) => exports.ns_load_begin(file_index, size_bytes));
  }

  /** Where the next `size_bytes` bytes of the file go; valid until the next call. */
  loadReserve(size_bytes: number): Uint8Array {
    const at = this.#call((exports) => exports.ns_load_reserve(size_bytes));
    if (at === 0)
      throw new EngineError('out_of_memory', 'The engine has no memory to read the model.');
    return this.#memory.bytes(at, size_bytes);
  }

  loadCommit(size_bytes: number): number {
    return this.#check((exports) => exports.ns_load_commit(size_bytes));
  }

  loadEnd(): void {
    this.#check((exports) => exports.ns_load_end());
  }

  splitCount(): number {
    return this.#check((exports) => exports.ns_load_split_count());
  }

  loadFinish(): void {
    this.#check((exports) => exports.ns_load_finish());
  }

  modelJson(): string {
    this.#check((exports) => exports.ns_model_json());
    return this.#resultText();
  }

  infoJson(): string {
    this.#check((exports) => exports.ns_info_json());
    return this.#resultText();
  }

  metadataString(key: string): string | undefined {
    const bytes = encodeUtf8(key);
    const block = new CallBlock();
    const at = block.addBytes(bytes);
    const found = this.#block(block, (base) =>
      this.#check((exports) => exports.ns_metadata_string(base + at, bytes.length)),
    );
    return found === 1 ? this.#resultText() : undefined;
  }

  planText(plan_name: string, row_count: number, part: PlanPart): string {
    const bytes = encodeUtf8(plan_name);
    const block = new CallBlock();
    const at = block.addBytes(bytes);
    this.#block(block, (base) =>
      this.#check((exports) =>
        exports.ns_plan_text(base + at, bytes.length, row_count, kPlanParts[part]),
      ),
    );
    return this.#resultText();
  }

  tokenize(text: string, options: { add_special: boolean; parse_special: boolean }): number[] {
    const bytes = encodeUtf8(text);
    const block = new CallBlock();
    const at = block.addBytes(bytes);
    const flags = (options.add_special ? 1 : 0) | (options.parse_special ? 2 : 0);
    const count = this.#block(block, (base) =>
      this.#check((exports) => exports.ns_tokenize(base + at, bytes.length, flags)),
    );
    return this.#call((exports) => this.#memory.ids(exports.ns_result_ptr(), count));
  }

  detokenize(ids: readonly number[], with_special: boolean): string {
    const block = new CallBlock();
    const at = block.addIds(ids);
    this.#block(block, (base) =>
      this.#check((exports) => exports.ns_detokenize(base + at, ids.length, with_special ? 1 : 0)),
    );
    return this.#resultText();
  }

  /** Starts a request; its events carry the id that is returned. */
  requestStart(request: CoreRequest): number {
    for (const { token_id } of request.logit_bias) checkId(token_id);
    const block = new CallBlock();
    const prompt_at = block.addIds(request.prompt_ids);
    const forced_at = block.addIds(request.forced_ids);
    const stop_at = block.addBytes(packStrings(request.stop));
    const bias_at = block.add(kNsLogitBiasSize * request.logit_bias.length, (memory, at) =>
      request.logit_bias.forEach((bias, i) =>
        writeNsLogitBias(memory.view, at + kNsLogitBiasSize * i, bias),
      ),
    );
    const flags =
      (request.ignore_eos ? NsRequestFlag.ignoreEos : 0) |
      (request.special_text ? NsRequestFlag.specialText : 0);
    const at: number = block.add(kNsRequestSize, (memory, here) => {
      const base = here - at;
      writeNsRequest(memory.view, here, {
        prompt_ids_ptr: base + prompt_at,
        prompt_count: request.prompt_ids.length,
        forced_ids_ptr: base + forced_at,
        forced_count: request.forced_ids.length,
        max_tokens: request.max_tokens,
        top_logprobs: request.top_logprobs,
        flags,
        stop_ptr: base + stop_at,
        stop_count: request.stop.length,
        logit_bias_ptr: base + bias_at,
        logit_bias_count: request.logit_bias.length,
        seed_low: request.seed >>> 0,
        seed_high: Math.floor(request.seed / 2 ** 32) >>> 0,
        temperature: request.temperature,
        top_k: request.top_k,
        top_p: request.top_p,
        min_p: request.min_p,
        repeat_penalty: request.repeat_penalty,
        presence_penalty: request.presence_penalty,
        frequency_penalty: request.frequency_penalty,
        penalty_last_n: request.penalty_last_n,
      });
    });
    return this.#block(block, (base) =>
      this.#check((exports) => exports.ns_request_start(base + at)),
    );
  }

  requestCancel(request_id: number): void {
    this.#check((exports) => exports.ns_request_cancel(request_id));
  }

  /** Works for at most `budget_us`. */
  pump(budget_us: number): PumpState {
    return kPumpStates[this.#call((exports) => exports.ns_pump(budget_us))] ?? 'idle';
  }

  #callGpu<T>(use: (exports: NsGpuExports) => T): T {
    const { gpu_exports } = this.#instance;
    if (!gpu_exports) throw new EngineError('internal', 'This module does not use a GPU.');
    return this.#call(() => use(gpu_exports));
  }

  /** Before create(): what the engine may count on. */
  gpuAdapter(report: AdapterReport, { limits, f16, subgroups }: OpenedDevice): void {
    const block = new CallBlock();
    const names = [report.vendor, report.architecture, report.description].map(encodeUtf8);
    const [vendor_at = 0, architecture_at = 0, description_at = 0] = names.map((name) =>
      block.addBytes(name),
    );
    const [vendor_size = 0, architecture_size = 0, description_size = 0] = names.map(
      (name) => name.length,
    );
    const features =
      (f16 ? NsGpuFeature.f16 : 0) |
      (subgroups ? NsGpuFeature.subgroups : 0) |
      (report.software === null ? 0 : NsGpuFeature.fallback);
    const at: number = block.add(kNsGpuAdapterSize, (memory, here) => {
      const base = here - at;
      writeNsGpuAdapter(memory.view, here, {
        ...limits,
        features,
        subgroup_min_size: report.subgroup_min_size,
        subgroup_max_size: report.subgroup_max_size,
        vendor_ptr: base + vendor_at,
        vendor_size,
        architecture_ptr: base + architecture_at,
        architecture_size,
        description_ptr: base + description_at,
        description_size,
      });
    });
    const status = this.#block(block, (base) =>
      this.#callGpu((exports) => exports.ns_gpu_adapter(base + at)),
    );
    if (status < 0) {
      throw new EngineError(errorCodeName(-status), 'The engine refused the adapter.');
    }
  }

  gpuPipelineDone(pipeline: number, is_ready: boolean): void {
    this.#callGpu((exports) => exports.ns_gpu_pipeline_done(pipeline, is_ready ? 1 : 0));
  }

  gpuTicketDone(ticket: number): void {
    this.#callGpu((exports) => exports.ns_gpu_ticket_done(ticket));
  }

  gpuError({ code, message }: EngineError): void {
    const bytes = encodeUtf8(message);
    const block = new CallBlock();
    const at = block.addBytes(bytes);
    this.#block(block, (base) =>
      this.#callGpu((exports) => exports.ns_gpu_error(ErrorCode[code], base + at, bytes.length)),
    );
  }

  takeEvents(): EventRecord[] {
    return this.#call((exports) => {
      const size_bytes = exports.ns_events_size();
      if (size_bytes === 0) return [];
      const events = decodeEvents(this.#memory, exports.ns_events_ptr(), size_bytes);
      exports.ns_events_clear();
      return events;
    });
  }

  stats(): EngineStats {
    const block = new CallBlock();
    const at = block.add(kNsStatsSize, () => {});
    return this.#block(block, (base) => {
      this.#check((exports) => exports.ns_stats(base + at));
      return readNsStats(this.#memory.view, base + at);
    });
  }
}

/** Each string as a uint32_t length and its bytes, padded to 4. */
export function packStrings(strings: readonly string[]): Uint8Array {
  const encoded = strings.map(encodeUtf8);
  const padded = (size_bytes: number) => Math.ceil(size_bytes / 4) * 4;
  const packed = new Uint8Array(encoded.reduce((sum, bytes) => sum + 4 + padded(bytes.length), 0));
  const view = new DataView(packed.buffer);
  let at = 0;
  for (const bytes of encoded) {
    view.setUint32(at, bytes.length, true);
    packed.set(bytes, at + 4);
    at += 4 + padded(bytes.length);
  }
  return packed;
}
