// The engine worker's state: one module instance, one model, the requests under way, and the pump
// that serves them. Between two slices of work the message queue gets a turn, so that a stop, or
// another request, gets through within about 10 ms.
import { chooseGpu } from '../gpu/choose_gpu.js';
import { perToken, type GpuCounts } from '../gpu/counters.js';
import type { GpuPlayer } from '../gpu/player.js';
import { gpuBuild, wantsGpu } from '../wasm/choose.js';
import type { EngineCore } from '../wasm/core.js';
import { EngineError, fromErrorRecord, toEngineError } from '../wasm/error.js';
import type { EventRecord } from '../wasm/events.js';
import { canShareMemory, withTimeout, yieldToMessages } from '../wasm/platform.js';
import { loadModel } from './load.js';
import { kTemplateKey, readModelInfo } from './model_info.js';
import type {
  Calls,
  ChatMessage,
  GenerateEvent,
  GenerateParams,
  GenerateReply,
  LoadProgress,
  ModelInfo,
  OpenParams,
  OpenResult,
  PromptInput,
} from './protocol.js';
import { startOnCpu, startOnGpu, stop, type Started } from './start.js';
import { TemplateSandbox } from './template_sandbox.js';

const kPumpBudgetUs = 10_000;
const kSliceMs = 10;
/** A hung GPU is reset by its driver long before; this bounds what no driver notices. */
const kGpuLimitMs = 300_000;

interface Running {
  emit: (event: GenerateEvent) => void;
  finish: (reply: GenerateReply) => void;
  fail: (error: EngineError) => void;
  top_logprobs: number;
  /** The counts when the first token had come. */
  first_token: { counts: GpuCounts; token_count: number } | undefined;
}

interface Opened extends Started {
  adapter: OpenResult['adapter'];
  model: ModelInfo;
  template: string | undefined;
  /** Of all requests together. */
  token_count: number;
}

/** What another device may do better; a wrong file or option stays wrong. */
function isGpuFault(thrown: unknown): boolean {
  const { code } = toEngineError(thrown);
  return ['backend_failed', 'out_of_memory', 'internal', 'timeout', 'unsupported_type'].includes(
    code,
  );
}

export class Session {
  readonly #worker_url: URL;
  readonly #templates: TemplateSandbox;
  readonly #running = new Map<number, Running>();
  #opened: Opened | undefined;
  #pumping = false;
  /** Ends a wait for the GPU: there is something else to do. */
  #wake: () => void = () => {};

  constructor(worker_url: URL) {
    this.#worker_url = worker_url;
    this.#templates = new TemplateSandbox(worker_url);
  }

  async open(
    params: OpenParams,
    onProgress: (progress: LoadProgress) => void,
    signal: AbortSignal,
  ): Promise<OpenResult> {
    await this.close();
    let adapter: OpenResult['adapter'] = null;
    let why_not = '';
    if (wantsGpu(params)) {
      const is_forced = params.device === 'webgpu';
      const { opened, report, why } = await chooseGpu(is_forced, params.gpu);
      why_not = why;
      if (opened && report) {
        try {
          const choice = gpuBuild(params.device, why);
          const started = await startOnGpu(params, choice, opened, report, this.#worker_url);
          return await this.#load(params, started, { ...report, used: true }, onProgress, signal);
        } catch (thrown) {
          if (is_forced || !isGpuFault(thrown)) throw thrown;
          why_not = `it failed (${toEngineError(thrown).message.replace(/\.$/, '')})`;
        }
      } else if (is_forced) {
        throw new EngineError('backend_failed', `WebGPU was asked for, but ${why}.`);
      }
      adapter = report && { ...report, used: false };
    }
    const started = await startOnCpu(params, this.#worker_url);
    if (why_not !== '') started.choice.reason += ` WebGPU is not used: ${why_not}.`;
    return this.#load(params, started, adapter, onProgress, signal);
  }

  /** Streams the model to a started module; what fails leaves nothing behind. */
  async #load(
    params: OpenParams,
    started: Started,
    adapter: OpenResult['adapter'],
    onProgress: (progress: LoadProgress) => void,
    signal: AbortSignal,
  ): Promise<OpenResult> {
    const { core, player } = started;
    try {
      if (!params.header_only) this.#templates.warm();
      const { source, header_only } = params;
      await loadModel({ core, player, source, header_only, signal, onProgress });
      const template = params.template ?? core.metadataString(kTemplateKey);
      const model = readModelInfo(core, template);
      this.#opened = { ...started, adapter, model, template, token_count: 0 };
      return describe(this.#opened, params);
    } catch (thrown) {
      await stop(started);
      throw thrown;
    }
  }

  get #current(): Opened {
    if (!this.#opened) throw new EngineError('wrong_state', 'No model is loaded.');
    return this.#opened;
  }

  get core(): EngineCore {
    return this.#current.core;
  }

  /** The text that the model's chat template makes of `messages`. */
  async render(messages: readonly ChatMessage[]): Promise<string> {
    const { template, model } = this.#current;
    if (template === undefined) {
      throw new EngineError(
        'no_template',
        `The model "${model.name}" has no chat template: it is a base model, which continues text.`,
      );
    }
    const { bos_token, eos_token } = model;
    return this.#templates.render({ template, messages, bos_token, eos_token });
  }

  /** The engine reads the text in one go; a stop that came meanwhile is obeyed after it. */
  async tokenize(params: Calls['tokenize']['params'], signal: AbortSignal): Promise<number[]> {
    const ids = this.core.tokenize(params.text, params);
    await yieldToMessages();
    signal.throwIfAborted();
    return ids;
  }

  /** The text of each id, in slices so that a stop gets through. */
  async pieces(ids: readonly number[], signal: AbortSignal): Promise<string[]> {
    const { core } = this.#current;
    const pieces: string[] = [];
    let yielded_ms = performance.now();
    for (const id of ids) {
      pieces.push(core.detokenize([id], true));
      if (performance.now() - yielded_ms < kSliceMs) continue;
      await yieldToMessages();
      signal.throwIfAborted();
      yielded_ms = performance.now();
    }
    return pieces;
  }

  async #promptIds(prompt: PromptInput): Promise<number[]> {
    if (prompt.kind === 'ids') return [...prompt.ids];
    if (prompt.kind === 'text') {
      return this.core.tokenize(prompt.text, { add_special: true, parse_special: true });
    }
    const text = await this.render(prompt.messages);
    if (text === '') {
      throw new EngineError(
        'template_error',
        'The chat template made an empty text of the messages.',
      );
    }
    const { model } = this.#current;
    // Many templates write the BOS token themselves; it is not added a second time.
    const has_bos = model.bos_token !== '' && text.startsWith(model.bos_token);
    return this.core.tokenize(text, { add_special: !has_bos, parse_special: true });
  }

  async generate(
    params: GenerateParams,
    emit: (event: GenerateEvent) => void,
    signal: AbortSignal,
  ): Promise<GenerateReply> {
    const prompt_ids = await this.#promptIds(params.prompt);
    signal.throwIfAborted();
    const { core, player } = this.#current;
    if (player?.failure) throw player.failure;
    const request_id = core.requestStart({ ...params, prompt_ids });
    emit({ kind: 'started', prompt_ids });
    return new Promise<GenerateReply>((resolve, reject) => {
      const cancel = () => this.#cancel(core, request_id);
      const settle = () => {
        signal.removeEventListener('abort', cancel);
        this.#running.delete(request_id);
      };
      this.#running.set(request_id, {
        emit,
        top_logprobs: params.top_logprobs,
        first_token: undefined,
        finish: (reply) => {
          settle();
          resolve(reply);
        },
        fail: (error) => {
          settle();
          reject(error);
        },
      });
      signal.addEventListener('abort', cancel, { once: true });
      if (this.#pumping) this.#wake();
      else void this.#pump(this.#current);
    });
  }

  #cancel(core: EngineCore, request_id: number): void {
    try {
      core.requestCancel(request_id);
    } catch (thrown) {
      this.#running.get(request_id)?.fail(toEngineError(thrown));
    }
    this.#wake();
  }

  async #pump(opened: Opened): Promise<void> {
    const { core, player } = opened;
    this.#pumping = true;
    try {
      // Requests that came together begin together: their prompts are read in one run.
      await yieldToMessages();
      while (this.#running.size > 0) {
        const state = core.pump(kPumpBudgetUs);
        for (const event of core.takeEvents()) this.#deliver(opened, event);
        if (state === 'idle' && this.#running.size > 0) {
          throw new EngineError('internal', 'The engine is idle although a request is under way.');
        }
        if (state === 'wait' && player) await this.#waitForGpu(player);
        else await yieldToMessages();
      }
    } catch (thrown) {
      this.#failAll(toEngineError(thrown));
    } finally {
      this.#pumping = false;
    }
  }

  /** Sleeps until the GPU has reported something, or there is something else to do. */
  async #waitForGpu(player: GpuPlayer): Promise<void> {
    const woken = new Promise<void>((resolve) => {
      this.#wake = resolve;
    });
    await withTimeout(
      Promise.race([player.nextReport(), woken]),
      kGpuLimitMs,
      `The GPU has not answered within ${kGpuLimitMs} ms.`,
    );
    if (player.failure) throw player.failure;
  }

  #failAll(error: EngineError): void {
    for (const running of [...this.#running.values()]) running.fail(error);
  }

  #deliver(opened: Opened, event: EventRecord): void {
    const { core, player } = opened;
    if (event.kind === 'error' && event.request_id === 0) {
      this.#failAll(fromErrorRecord(event.error));
      return;
    }
    const running = this.#running.get(event.request_id);
    if (!running) return;
    switch (event.kind) {
      case 'token': {
        opened.token_count += 1;
        if (player) {
          const { counts } = player.counter;
          running.first_token ??= { counts, token_count: opened.token_count };
        }
        const { kind, token_id, index, text, is_end } = event;
        const top = running.top_logprobs > 0 ? event.top : undefined;
        running.emit({ kind, token_id, index, text, is_end, top });
        return;
      }
      case 'prefill': {
        const { kind, done_count, total_count } = event;
        running.emit({ kind, done_count, total_count });
        return;
      }
      case 'error':
        running.fail(fromErrorRecord(event.error));
        return;
      case 'finish': {
        const { kind: _kind, request_id: _id, reason, ...counts } = event;
        const { first_token: first } = running;
        const gpu_per_token =
          player && first
            ? perToken(first.counts, player.counter.counts, opened.token_count - first.token_count)
            : null;
        running.finish({ finish_reason: reason, ...counts, stats: core.stats(), gpu_per_token });
      }
    }
  }

  async close(): Promise<void> {
    this.#failAll(new EngineError('aborted', 'The engine was closed.'));
    const opened = this.#opened;
    this.#opened = undefined;
    this.#wake();
    await Promise.all([this.#templates.close(), opened && stop(opened)]);
  }
}

function describe(opened: Opened, params: OpenParams): OpenResult {
  const { core, choice, model, adapter } = opened;
  return {
    model,
    backend: params.reference ? 'cpu-reference' : choice.backend,
    build: choice.build,
    reason: params.reference
      ? `The reference kernels were asked for. ${choice.reason}`
      : choice.reason,
    thread_count: choice.thread_count,
    isolated: canShareMemory(),
    adapter,
    engine: params.header_only ? null : JSON.parse(core.infoJson()),
  };
}
