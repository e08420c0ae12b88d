// Engine: a model loaded into a worker of its own. Every promise settles; every failure is an
// EngineError with a code; after a failed or aborted request the engine goes on working.
import type { PlanPart, EngineStats } from '../wasm/core.js';
import { EngineError, toEngineError } from '../wasm/error.js';
import type { TopTokens } from '../wasm/events.js';
import type { ChatMessage, OpenResult } from '../worker/protocol.js';
import { stoppedByCaller, WorkerClient } from '../worker/client.js';
import { Generation } from './generation.js';
import {
  toGenerateParams,
  toOpenParams,
  type GenerateOptions,
  type LoadOptions,
  type ModelInput,
} from './options.js';

export type EngineInfo = OpenResult;

export interface ScoreOptions {
  ids: readonly number[];
  /** Step i is the distribution before continued id i. */
  continued_ids: readonly number[];
  /** How many of the best tokens a step lists, at least 1. */
  top_logprobs: number;
  signal?: AbortSignal;
}

export interface TokenizeOptions {
  /** BOS and EOS as the model asks. Default true. */
  add_special?: boolean;
  /** "<|im_end|>" in the text becomes its token. Default true. */
  parse_special?: boolean;
  signal?: AbortSignal;
}

export interface PiecesOptions {
  signal?: AbortSignal;
}

export class Engine implements AsyncDisposable {
  readonly info: EngineInfo;
  readonly #client: WorkerClient;

  private constructor(client: WorkerClient, info: EngineInfo) {
    this.#client = client;
    this.info = info;
  }

  /** Loads a model; the promise settles when it is ready to answer. */
  static async load(model: ModelInput, options: LoadOptions = {}): Promise<Engine> {
    const { signal } = options;
    if (signal?.aborted) throw toEngineError(signal.reason);
    const params = toOpenParams(model, options);
    const url = options.workerUrl ?? new URL('./worker.mjs', import.meta.url);
    const client = await WorkerClient.start(new URL(url, import.meta.url), signal);
    // A stop leaves nothing worth keeping, so the worker is not asked: it may be in a long step.
    const stop = () => client.terminate(stoppedByCaller(signal));
    signal?.addEventListener('abort', stop, { once: true });
    try {
      if (signal?.aborted) stop();
      const info = await client.call('open', params, { onEvent: options.onProgress ?? (() => {}) });
      return new Engine(client, info);
    } catch (thrown) {
      client.terminate();
      throw thrown;
    } finally {
      signal?.removeEventListener('abort', stop);
    }
  }

  /** Starts a reply at once; iterate over it, await its `result`, or both. */
  generate(options: GenerateOptions): Generation {
    const params = toGenerateParams(options);
    return new Generation(this.#client, params, options.signal, options.onPrefill);
  }

  /** The distributions along a given continuation. */
  async score(options: ScoreOptions): Promise<TopTokens[]> {
    const { ids, continued_ids, top_logprobs, signal } = options;
    if (!(top_logprobs >= 1)) {
      const sentence = `A scoring lists at least one token of each step, not (${top_logprobs}).`;
      throw new EngineError('invalid_argument', sentence);
    }
    // Without an id to feed, the engine would sample.
    if (continued_ids.length === 0) return [];
    const params = {
      ...toGenerateParams({ ids, seed: 0, top_logprobs, ignore_eos: true }),
      forced_ids: continued_ids,
      max_tokens: continued_ids.length,
    };
    const generation = new Generation(this.#client, params, signal, undefined);
    const { logprobs, finish_reason } = await generation.result;
    // A reply that was stopped is worth something; half a scoring is not.
    if (finish_reason === 'abort') throw new EngineError('aborted', 'The scoring was stopped.');
    return logprobs ?? [];
  }

  async tokenize(text: string, options: TokenizeOptions = {}): Promise<number[]> {
    const { add_special = true, parse_special = true, signal } = options;
    const params = { text, add_special, parse_special };
    return (await this.#client.call('tokenize', params, { signal })).ids;
  }

  /** The text of each id by itself, special tokens included. */
  async pieces(ids: readonly number[], { signal }: PiecesOptions = {}): Promise<string[]> {
    return (await this.#client.call('pieces', { ids }, { signal })).pieces;
  }

  async detokenize(ids: readonly number[], with_special = false): Promise<string> {
    return (await this.#client.call('detokenize', { ids, with_special })).text;
  }

  /** The prompt text that the chat template makes of `messages`. */
  async render(messages: readonly ChatMessage[]): Promise<string> {
    return (await this.#client.call('render', { messages })).text;
  }

  /** A dump of the graph, the steps or the memory plan for `row_count` rows. */
  async plan(part: PlanPart, row_count = 1, plan_name = ''): Promise<string> {
    return (await this.#client.call('plan', { plan_name, row_count, part })).text;
  }

  stats(): Promise<EngineStats> {
    return this.#client.call('stats', {});
  }

  /** Ends the worker. Replies under way fail with `aborted`. */
  async close(): Promise<void> {
    this.#client.terminate();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}
