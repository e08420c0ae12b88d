// The engine worker's state: one module instance, one model, the requests under way, and the pump
// that serves them. Between two slices of work the message queue gets a turn, so that a stop, or
// another request, gets through within about 10 ms.
import { chooseBuild, type BuildChoice } from '../wasm/choose.js';
import { EngineCore } from '../wasm/core.js';
import { EngineError, fromErrorRecord, toEngineError } from '../wasm/error.js';
import type { EventRecord } from '../wasm/events.js';
import { compileModule, instantiateMain, moduleFileName } from '../wasm/instance.js';
import { canShareMemory, coreCount, yieldToMessages } from '../wasm/platform.js';
import { probeCapabilities } from '../wasm/probe.js';
import { ThreadPool } from '../wasm/threads.js';
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
import { TemplateSandbox } from './template_sandbox.js';

const kPumpBudgetUs = 10_000;
const kSliceMs = 10;

interface Running {
  emit: (event: GenerateEvent) => void;
  finish: (reply: GenerateReply) => void;
  fail: (error: EngineError) => void;
  top_logprobs: number;
}

interface Opened {
  core: EngineCore;
  choice: BuildChoice;
  threads: ThreadPool | undefined;
  model: ModelInfo;
  template: string | undefined;
}

interface Started {
  core: EngineCore;
  threads: ThreadPool | undefined;
  choice: BuildChoice;
}

/** An option that the engine refuses is refused with any number of threads. */
function isOption(thrown: unknown): boolean {
  return toEngineError(thrown).code === 'invalid_argument';
}

export class Session {
  readonly #worker_url: URL;
  readonly #templates: TemplateSandbox;
  readonly #running = new Map<number, Running>();
  #opened: Opened | undefined;
  #pumping = false;

  constructor(worker_url: URL) {
    this.#worker_url = worker_url;
    this.#templates = new TemplateSandbox(worker_url);
  }

  async open(
    params: OpenParams,
    onProgress: (progress: LoadProgress) => void,
    signal: AbortSignal,
  ): Promise<OpenResult> {
    this.close();
    if (params.device === 'webgpu') {
      throw new EngineError('backend_failed', 'The WebGPU backend is not part of this version.');
    }
    const wanted = chooseBuild(
      { ...probeCapabilities(), memory_sharable: canShareMemory(), core_count: coreCount() },
      { build: params.build, thread_count: params.reference ? 1 : params.thread_count },
    );
    const { core, threads, choice } = await this.#startOrFallBack(params, wanted);
    try {
      if (!params.header_only) this.#templates.warm();
      const { source, header_only } = params;
      await loadModel({ core, source, header_only, signal, onProgress });
      const template = params.template ?? core.metadataString(kTemplateKey);
      const model = readModelInfo(core, template);
      this.#opened = { core, choice, threads, model, template };
      return describe(this.#opened, params);
    } catch (thrown) {
      threads?.terminate();
      core.destroy();
      throw thrown;
    }
  }

  /** Threads that do not start cost threads, not the reply. */
  async #startOrFallBack(params: OpenParams, wanted: BuildChoice): Promise<Started> {
    try {
      return { choice: wanted, ...(await this.#start(params, wanted)) };
    } catch (thrown) {
      if (!wanted.shared || isOption(thrown)) throw thrown;
      const reason = `${wanted.reason} But they failed, so one is used: ${toEngineError(thrown).message}`;
      const choice = { ...wanted, shared: false, thread_count: 1, reason };
      return { choice, ...(await this.#start(params, choice)) };
    }
  }

  async #start(params: OpenParams, choice: BuildChoice): Promise<Omit<Started, 'choice'>> {
    const url = new URL(moduleFileName(choice), this.#worker_url);
    const instance = await instantiateMain(await compileModule(url), choice.shared);
    const core = new EngineCore(instance);
    core.create({ ...params, thread_count: choice.thread_count });
    const threads = choice.shared
      ? await ThreadPool.start(instance, choice.thread_count, this.#worker_url)
      : undefined;
    return { core, threads };
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
    const { core } = this.#current;
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
      if (!this.#pumping) void this.#pump(core);
    });
  }

  #cancel(core: EngineCore, request_id: number): void {
    try {
      core.requestCancel(request_id);
    } catch (thrown) {
      this.#running.get(request_id)?.fail(toEngineError(thrown));
    }
  }

  async #pump(core: EngineCore): Promise<void> {
    this.#pumping = true;
    try {
      while (this.#running.size > 0) {
        const more = core.pump(kPumpBudgetUs);
        for (const event of core.takeEvents()) this.#deliver(core, event);
        if (!more && this.#running.size > 0) {
          throw new EngineError('internal', 'The engine is idle although a request is under way.');
        }
        await yieldToMessages();
      }
    } catch (thrown) {
      this.#failAll(toEngineError(thrown));
    } finally {
      this.#pumping = false;
    }
  }

  #failAll(error: EngineError): void {
    for (const running of [...this.#running.values()]) running.fail(error);
  }

  #deliver(core: EngineCore, event: EventRecord): void {
    if (event.kind === 'error' && event.request_id === 0) {
      this.#failAll(fromErrorRecord(event.error));
      return;
    }
    const running = this.#running.get(event.request_id);
    if (!running) return;
    switch (event.kind) {
      case 'token': {
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
        running.finish({ finish_reason: reason, ...counts, stats: core.stats() });
      }
    }
  }

  close(): void {
    this.#failAll(new EngineError('aborted', 'The engine was closed.'));
    const opened = this.#opened;
    this.#opened = undefined;
    opened?.threads?.terminate();
    opened?.core.destroy();
    this.#templates.close();
  }
}

function describe(opened: Opened, params: OpenParams): OpenResult {
  const { core, choice, model } = opened;
  return {
    model,
    backend: params.reference ? 'cpu-reference' : choice.backend,
    build: choice.build,
    reason: params.reference
      ? `The reference kernels were asked for. ${choice.reason}`
      : choice.reason,
    thread_count: choice.thread_count,
    isolated: canShareMemory(),
    engine: params.header_only ? null : JSON.parse(core.infoJson()),
  };
}
