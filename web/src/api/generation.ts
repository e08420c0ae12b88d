// A reply under way: an async iterator of its pieces, and a promise of the whole. Leaving the loop
// early, or aborting the signal, stops the engine; the result then says finish_reason "abort".
import type { GpuCounts } from '../gpu/counters.js';
import { toEngineError } from '../wasm/error.js';
import type { FinishReason, TopTokens } from '../wasm/events.js';
import type { EngineStats } from '../wasm/core.js';
import type { GenerateEvent, GenerateParams, GenerateReply } from '../worker/protocol.js';
import type { WorkerClient } from '../worker/client.js';

export interface GenerateChunk {
  text: string;
  /** Null for the last piece, text that was held back in case it became a stop string. */
  token_id: number | null;
  index: number;
  logprobs: TopTokens | null;
}

export interface GenerateResult {
  text: string;
  token_ids: number[];
  prompt_ids: number[];
  finish_reason: FinishReason;
  seed: number;
  /** One entry a token, when top_logprobs was asked for. */
  logprobs: TopTokens[] | null;
  /** From the request to its first token. */
  ttft_ms: number | null;
  prefill_tok_s: number | null;
  /** Tokens after the first. */
  decode_tok_s: number | null;
  cached_count: number;
  /** Prompt tokens that were computed: all but the cached ones, unless it was stopped before. */
  read_count: number;
  stats: EngineStats;
  /** WebGPU: what a token after the first took; null on the CPU and for one token. */
  gpu_per_token: GpuCounts | null;
}

export class Generation implements AsyncIterable<GenerateChunk> {
  readonly result: Promise<GenerateResult>;
  readonly #params: GenerateParams;
  readonly #stop = new AbortController();
  readonly #chunks: GenerateChunk[] = [];
  readonly #started_ms = performance.now();
  #prompt_ids: number[] = [];
  /** Prompt tokens that are behind us, the cached ones included. */
  #prefilled_count = 0;
  #token_ids: number[] = [];
  #logprobs: TopTokens[] = [];
  #text = '';
  #ttft_ms: number | null = null;
  #done = false;
  #failure: Error | undefined;
  #wake: () => void = () => {};

  constructor(
    client: WorkerClient,
    params: GenerateParams,
    signal: AbortSignal | undefined,
    onPrefill: ((done_count: number, total_count: number) => void) | undefined,
  ) {
    this.#params = params;
    const stop = this.#stop;
    const forward = () => stop.abort(signal?.reason);
    if (signal?.aborted) forward();
    signal?.addEventListener('abort', forward, { once: true });
    const reply = client.call('generate', params, {
      signal: stop.signal,
      onEvent: (event) => this.#take(event, onPrefill),
    });
    this.result = reply
      .then(
        (value) => this.#finish(value),
        (thrown: unknown) => {
          this.#failure = toEngineError(thrown);
          throw this.#failure;
        },
      )
      .finally(() => {
        signal?.removeEventListener('abort', forward);
        this.#done = true;
        this.#wake();
      });
    // Whoever only iterates meets the failure there.
    this.result.catch(() => {});
  }

  #take(event: GenerateEvent, onPrefill?: (done: number, total: number) => void): void {
    if (event.kind === 'started') {
      this.#prompt_ids = event.prompt_ids;
      return;
    }
    if (event.kind === 'prefill') {
      this.#prefilled_count = event.done_count;
      onPrefill?.(event.done_count, event.total_count);
      return;
    }
    this.#ttft_ms ??= performance.now() - this.#started_ms;
    this.#token_ids.push(event.token_id);
    if (event.top) this.#logprobs.push(event.top);
    this.#push({
      text: event.text,
      token_id: event.token_id,
      index: event.index,
      logprobs: event.top ?? null,
    });
  }

  #push(chunk: GenerateChunk): void {
    this.#text += chunk.text;
    this.#chunks.push(chunk);
    this.#wake();
  }

  #finish(reply: GenerateReply): GenerateResult {
    if (reply.text !== '') {
      this.#push({
        text: reply.text,
        token_id: null,
        index: reply.generated_count,
        logprobs: null,
      });
    }
    // The first token comes after the whole prompt.
    const done_count = reply.generated_count > 0 ? reply.prompt_count : this.#prefilled_count;
    const read_count = Math.max(done_count - reply.cached_count, 0);
    return {
      text: this.#text,
      token_ids: this.#token_ids,
      prompt_ids: this.#prompt_ids,
      finish_reason: reply.finish_reason,
      seed: this.#params.seed,
      logprobs: this.#params.top_logprobs > 0 ? this.#logprobs : null,
      ttft_ms: this.#ttft_ms,
      prefill_tok_s: rate(read_count, reply.prefill_us),
      decode_tok_s: rate(reply.generated_count - 1, reply.decode_us),
      cached_count: reply.cached_count,
      read_count,
      stats: reply.stats,
      gpu_per_token: reply.gpu_per_token,
    };
  }

  async *[Symbol.asyncIterator](): AsyncIterator<GenerateChunk> {
    try {
      for (;;) {
        const chunk = this.#chunks.shift();
        if (chunk) {
          yield chunk;
          continue;
        }
        if (this.#failure) throw this.#failure;
        if (this.#done) return;
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      }
    } finally {
      if (!this.#done) this.#stop.abort();
    }
  }
}

/** Per second, or null where nothing was measured. */
function rate(count: number, time_us: number): number | null {
  return count > 0 && time_us > 0 ? count / (time_us / 1e6) : null;
}
