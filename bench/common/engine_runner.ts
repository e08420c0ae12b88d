// Our side: a model in an engine of the public package, measured by its replies. The same code runs in
// Node and in a page.
import { Engine, type Generation, type LoadOptions } from '../../web/src/api/index.js';
import type { GenerateResult } from '../../web/src/api/index.js';
import {
  kTokenCosts,
  type Case,
  type FirstTokenCase,
  type PrefillCase,
  type Sample,
  type SequencesCase,
  type Setup,
  type TogetherCase,
} from './cases.js';
import type { About, Runner } from './runner.js';
import { median } from './stats.js';
import { cycled, promptText } from './text.js';

export interface EngineSetup {
  /** A file (Node) or a URL (a page). */
  source: { kind: 'file'; path: string } | { kind: 'url'; url: string };
  load: Pick<
    LoadOptions,
    'device' | 'threads' | 'build' | 'contextLength' | 'maxSequences' | 'plan'
  >;
}

/** How the engine of a setup is loaded. */
export function engineLoad(
  { device, threads, build, sequences, plan }: Setup,
  context_length: number,
): EngineSetup['load'] {
  const common = {
    ...{ device, contextLength: context_length, maxSequences: sequences },
    ...(plan === undefined ? {} : { plan }),
  };
  if (device === 'webgpu') return common;
  return { ...common, threads, ...(build === 'default' ? {} : { build }) };
}

/** Milliseconds to the first token of a reply to `ids` where nothing is ready yet. */
export type ColdFirstToken = (setup: EngineSetup, ids: readonly number[]) => Promise<number>;

const kPromptWords = 256;
/** Of each of several replies; short, since nothing is counted before all have begun. */
const kSequencePrompt = 16;

export class EngineRunner implements Runner {
  readonly about: About;
  readonly #engine: Engine;
  readonly #ids: readonly number[];
  readonly #setup: EngineSetup;
  readonly #worker_url: string;
  readonly #coldFirstToken: ColdFirstToken;

  private constructor(
    engine: Engine,
    ids: readonly number[],
    setup: EngineSetup,
    worker_url: string,
    coldFirstToken: ColdFirstToken,
  ) {
    const { backend, reason, adapter } = engine.info;
    this.about = { backend, reason, adapter };
    this.#engine = engine;
    this.#ids = ids;
    this.#setup = setup;
    this.#worker_url = worker_url;
    this.#coldFirstToken = coldFirstToken;
  }

  static async start(
    setup: EngineSetup,
    worker_url: string,
    coldFirstToken: ColdFirstToken = (given, ids) => firstTokenFromLoad(given, worker_url, ids),
  ): Promise<EngineRunner> {
    const engine = await loadEngine(setup, worker_url);
    try {
      const ids = await engine.tokenize(promptText(kPromptWords), { add_special: false });
      return new EngineRunner(engine, ids, setup, worker_url, coldFirstToken);
    } catch (thrown) {
      await engine.close();
      throw thrown;
    }
  }

  async run(one: Case): Promise<Sample> {
    switch (one.kind) {
      case 'decode': {
        const reply = this.#reply(Math.max(one.context, 1), one.tokens + 1);
        const result = await reply.result;
        return { ...perSecond(result.decode_tok_s), ...tokenCosts(result) };
      }
      case 'prefill':
        return perSecond(await this.#prefill(one));
      case 'first-token':
        return { ms: await this.#firstToken(one) };
      case 'load':
        return { ms: await this.#load() };
      case 'together':
        return this.#together(one);
      case 'sequences':
        return perSecond(await this.#underWay(one));
      case 'facts':
        return this.#facts();
      default:
        throw new TypeError(`An engine has no case "${one.kind}".`);
    }
  }

  #reply(prompt_count: number, max_tokens: number): Generation {
    return replyTo(this.#engine, cycled(this.#ids, prompt_count), max_tokens);
  }

  #prefill({ tokens, repeats }: PrefillCase): Promise<number> {
    return medianOf(repeats, async () => {
      const { prefill_tok_s, read_count } = await this.#reply(tokens, 1).result;
      checkRead(read_count, tokens);
      return prefill_tok_s ?? NaN;
    });
  }

  #firstToken({ tokens, repeats, is_cold }: FirstTokenCase): Promise<number> {
    return medianOf(repeats, async () => {
      if (is_cold) return this.#coldFirstToken(this.#setup, cycled(this.#ids, tokens));
      const { ttft_ms, read_count } = await this.#reply(tokens, 1).result;
      checkRead(read_count, tokens);
      return ttft_ms ?? NaN;
    });
  }

  async #load(): Promise<number> {
    const begin_ms = performance.now();
    const engine = await loadEngine(this.#setup, this.#worker_url);
    const time_ms = performance.now() - begin_ms;
    await engine.close();
    return time_ms;
  }

  async #together({ count, tokens }: TogetherCase): Promise<Sample> {
    // What was measured before has left this engine, and the GPU's clock, at rest.
    await this.#reply(kSequencePrompt, tokens).result;
    const begin_ms = performance.now();
    const replies = Array.from({ length: count }, () => this.#reply(kSequencePrompt, tokens));
    await Promise.all(replies.map(({ result }) => result));
    const time_ms = performance.now() - begin_ms;
    return { ms: time_ms, 'tok/s': (count * tokens) / (time_ms / 1000) };
  }

  /** Tokens per second of all replies, while all of them are under way. */
  async #underWay({ count, tokens }: SequencesCase): Promise<number> {
    const replies = Array.from({ length: count }, () => this.#reply(kSequencePrompt, tokens + 1));
    const times = await Promise.all(replies.map(tokenTimes));
    const begins_ms = times.map((list) => list[0] ?? NaN);
    const ends_ms = times.map((list) => list.at(-1) ?? NaN);
    return (
      tokenRate(times, Math.max(...begins_ms), Math.min(...ends_ms)) ||
      // A tiny model's replies can be over before the last has begun.
      tokenRate(times, Math.min(...begins_ms), Math.max(...ends_ms))
    );
  }

  async #facts(): Promise<Sample> {
    const stats = await this.#engine.stats();
    const memory = { MB: stats.memory_bytes / 1e6 };
    if (this.#engine.info.backend === 'webgpu') {
      return { ...memory, 'GPU MB': stats.gpu_bytes / 1e6 };
    }
    const bound_bytes = stats.weight_bytes + stats.kv_bytes + 64 * 2 ** 20;
    return {
      ...memory,
      'MB bound': bound_bytes / 1e6,
      'barriers/token': stats.barriers_per_token,
    };
  }

  close(): Promise<void> {
    return this.#engine.close();
  }
}

function loadEngine({ source, load }: EngineSetup, worker_url: string): Promise<Engine> {
  return Engine.load(source, { ...load, workerUrl: worker_url });
}

function replyTo(engine: Engine, ids: readonly number[], max_tokens: number): Generation {
  return engine.generate({ ids, max_tokens, temperature: 0, ignore_eos: true, seed: 1 });
}

/** When, by performance.now(), an engine that is loaded for it gives the first token of a reply. */
export async function firstTokenTime(
  setup: EngineSetup,
  worker_url: string,
  ids: readonly number[],
): Promise<number> {
  const engine = await loadEngine(setup, worker_url);
  try {
    const [time_ms = NaN] = await tokenTimes(replyTo(engine, ids, 1));
    return time_ms;
  } finally {
    await engine.close();
  }
}

async function firstTokenFromLoad(
  setup: EngineSetup,
  worker_url: string,
  ids: readonly number[],
): Promise<number> {
  const begin_ms = performance.now();
  return (await firstTokenTime(setup, worker_url, ids)) - begin_ms;
}

async function medianOf(count: number, take: () => Promise<number>): Promise<number> {
  const values: number[] = [];
  for (let i = 0; i < count; i++) values.push(await take());
  return median(values);
}

/** A prompt that was partly remembered would flatter. */
function checkRead(read_count: number, token_count: number): void {
  if (read_count === token_count) return;
  throw new Error(`The engine read (${read_count}) tokens of a prompt of (${token_count}).`);
}

/** What the engine says of a token on the GPU; nothing on the CPU. */
function tokenCosts({ gpu_per_token, stats }: GenerateResult): Sample {
  if (!gpu_per_token) return {};
  const figures = new Map<string, unknown>(Object.entries({ ...stats, ...gpu_per_token }));
  const sample: Sample = {};
  for (const [name, unit] of Object.entries(kTokenCosts)) {
    const value = figures.get(name);
    if (typeof value === 'number') sample[unit] = value;
  }
  return sample;
}

/** Tokens after `begin_ms` up to `end_ms`, by second. */
function tokenRate(times: readonly number[][], begin_ms: number, end_ms: number): number {
  const counted = times.flat().filter((time_ms) => time_ms > begin_ms && time_ms <= end_ms);
  return end_ms > begin_ms ? counted.length / ((end_ms - begin_ms) / 1000) : 0;
}

function perSecond(value: number | null): Sample {
  return { 'tok/s': value ?? NaN };
}

async function tokenTimes(reply: Generation): Promise<number[]> {
  const times: number[] = [];
  for await (const { token_id } of reply) if (token_id !== null) times.push(performance.now());
  return times;
}
