// wllama in a page: loads a GGUF file and gives its figures for the cases that it shares with us.
// Decoding is timed as ours is, from the first token that the page sees to the last; reading a prompt by
// wllama's own clock. No cached prompt, greedy.
import type { Case, Sample } from '../common/cases.js';
import { servePage, type WllamaSetup } from '../common/page_globals.js';
import type { Runner } from '../common/runner.js';
import { median } from '../common/stats.js';
import { promptText } from '../common/text.js';
import { decodeRate } from './rates.js';

interface Timings {
  prompt_n: number;
  prompt_ms: number;
}

interface Chunk {
  choices: { text: string; finish_reason: string | null }[];
  timings?: Timings;
}

interface CompletionOptions {
  prompt: string;
  max_tokens: number;
  n_predict: number;
  temperature: number;
  ignore_eos: boolean;
  cache_prompt: boolean;
  stream: true;
  timings_per_token: boolean;
}

interface Wllama {
  loadModel(blobs: Blob[], options: Record<string, number | boolean>): Promise<void>;
  createCompletion(options: CompletionOptions): Promise<AsyncIterable<Chunk>>;
  isMultithread(): boolean;
  exit(): Promise<void>;
}

interface Module {
  Wllama: new (paths: { default: string }, options: object) => Wllama;
}

function isModule(value: unknown): value is Module {
  return typeof value === 'object' && value !== null && 'Wllama' in value;
}

interface Reply {
  times_ms: number[];
  timings: Timings | undefined;
}

const kBatch = 512;
const kOnCpu = { n_gpu_layers: 0 };
/** Its flash attention goes to the CPU on many GPUs; without it it is faster there. */
const kOnGpu = { n_gpu_layers: 999, flash_attn: false };

function loggerInto(log: string[]) {
  const note = (...words: unknown[]) => void log.push(words.join(' '));
  return { debug: note, log: note, warn: note, error: note };
}

/** Where it finds no GPU that it can use (it needs shader-f16), it computes on the CPU and goes on. */
function checkOnGpu(log: readonly string[]): void {
  const [, count, all] = /offloaded (\d+)\/(\d+) layers to GPU/.exec(log.join('\n')) ?? [];
  if (count !== undefined && count === all) return;
  throw new Error(`wllama has (${count ?? 0}) of (${all ?? 'its'}) layers on the GPU.`);
}

class WllamaRunner implements Runner {
  readonly #wllama: Wllama;

  private constructor(wllama: Wllama) {
    this.#wllama = wllama;
  }

  static async start(setup: WllamaSetup): Promise<WllamaRunner> {
    const { model_url, device, threads, context } = setup;
    const module: unknown = await import(new URL('/wllama/index.js', location.href).href);
    if (!isModule(module)) throw new TypeError('The file index.js is not wllama.');
    const wasm_url = new URL('/wllama/wasm/wllama.wasm', location.href).href;
    const log: string[] = [];
    const options = { logger: loggerInto(log), suppressNativeLog: device === 'cpu' };
    const wllama = new module.Wllama({ default: wasm_url }, options);
    const blob = await (await fetch(model_url)).blob();
    await wllama.loadModel([blob], {
      n_threads: threads,
      n_ctx: context,
      n_batch: kBatch,
      ...(device === 'webgpu' ? kOnGpu : kOnCpu),
    });
    if (wllama.isMultithread() !== threads > 1) {
      throw new Error(`wllama does not run on (${threads}) threads.`);
    }
    if (device === 'webgpu') checkOnGpu(log);
    return new WllamaRunner(wllama);
  }

  async run(one: Case): Promise<Sample> {
    if (one.kind === 'decode') {
      const { times_ms } = await this.#reply(Math.max(one.context, 1), one.tokens + 1);
      return { 'tok/s': decodeRate(times_ms) };
    }
    if (one.kind === 'prefill') {
      const rates: number[] = [];
      for (let i = 0; i < one.repeats; i++) {
        const { timings } = await this.#reply(one.tokens, 1);
        rates.push(timings ? timings.prompt_n / (timings.prompt_ms / 1000) : NaN);
      }
      return { 'tok/s': median(rates) };
    }
    if (one.kind === 'first-token' && !one.is_cold) {
      const times_ms: number[] = [];
      for (let i = 0; i < one.repeats; i++) {
        const begin_ms = performance.now();
        const [first_ms = NaN] = (await this.#reply(one.tokens, 1)).times_ms;
        times_ms.push(first_ms - begin_ms);
      }
      return { ms: median(times_ms) };
    }
    throw new TypeError(`wllama is not measured in the case "${one.kind}".`);
  }

  async #reply(prompt_count: number, token_count: number): Promise<Reply> {
    const chunks = await this.#wllama.createCompletion({
      prompt: promptText(prompt_count),
      max_tokens: token_count,
      n_predict: token_count,
      temperature: 0,
      ignore_eos: true,
      cache_prompt: false,
      stream: true,
      timings_per_token: true,
    });
    const reply: Reply = { times_ms: [], timings: undefined };
    for await (const { choices, timings } of chunks) {
      reply.timings = timings ?? reply.timings;
      // The last piece says only why it ended.
      if (choices[0]?.finish_reason === null) reply.times_ms.push(performance.now());
    }
    const { prompt_n = prompt_count } = reply.timings ?? {};
    if (prompt_n !== prompt_count) {
      throw new Error(`wllama read (${prompt_n}) tokens, not (${prompt_count}).`);
    }
    const { length } = reply.times_ms;
    if (length !== token_count) {
      throw new Error(`wllama gave (${length}) pieces for (${token_count}) tokens.`);
    }
    return reply;
  }

  close(): Promise<void> {
    return this.#wllama.exit();
  }
}

servePage(async (given) => {
  if (given.kind !== 'wllama') throw new TypeError(`This page does not run "${given.kind}".`);
  return WllamaRunner.start(given.setup);
});
