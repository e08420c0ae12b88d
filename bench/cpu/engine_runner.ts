// Our side: a model in an engine of the public package, measured by its replies. The same code runs in
// Node and in a page.
import { Engine, type Generation, type LoadOptions } from '../../web/src/api/index.js';
import type { Case, Sample, SequencesCase } from './cases.js';
import type { Runner } from './runner.js';
import { median } from './stats.js';
import { cycled, promptText } from './text.js';

export interface EngineSetup {
  /** A file (Node) or a URL (a page). */
  source: { kind: 'file'; path: string } | { kind: 'url'; url: string };
  load: Pick<LoadOptions, 'threads' | 'build' | 'contextLength' | 'maxSequences'>;
}

const kPromptWords = 256;
/** Of each of several replies; short, since nothing is counted before all have begun. */
const kSequencePrompt = 16;

export class EngineRunner implements Runner {
  readonly #engine: Engine;
  readonly #ids: readonly number[];

  private constructor(engine: Engine, ids: readonly number[]) {
    this.#engine = engine;
    this.#ids = ids;
  }

  static async start(setup: EngineSetup, worker_url: string): Promise<EngineRunner> {
    const engine = await Engine.load(setup.source, {
      ...setup.load,
      device: 'cpu',
      workerUrl: worker_url,
    });
    try {
      const ids = await engine.tokenize(promptText(kPromptWords), { add_special: false });
      return new EngineRunner(engine, ids);
    } catch (thrown) {
      await engine.close();
      throw thrown;
    }
  }

  async run(one: Case): Promise<Sample> {
    switch (one.kind) {
      case 'decode': {
        const { decode_tok_s } = await this.#reply(Math.max(one.context, 1), one.tokens + 1).result;
        return perSecond(decode_tok_s);
      }
      case 'prefill': {
        const rates: number[] = [];
        for (let i = 0; i < one.repeats; i++) {
          rates.push((await this.#reply(one.tokens, 1).result).prefill_tok_s ?? NaN);
        }
        return perSecond(median(rates));
      }
      case 'sequences':
        return perSecond(await this.#together(one));
      case 'facts':
        return this.#facts();
      default:
        throw new TypeError(`An engine has no case "${one.kind}".`);
    }
  }

  #reply(prompt_count: number, max_tokens: number): Generation {
    const ids = cycled(this.#ids, prompt_count);
    return this.#engine.generate({ ids, max_tokens, temperature: 0, ignore_eos: true, seed: 1 });
  }

  /** Tokens per second of all replies, while all of them are under way. */
  async #together({ count, tokens }: SequencesCase): Promise<number> {
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
    const bound_bytes = stats.weight_bytes + stats.kv_bytes + 64 * 2 ** 20;
    return {
      MB: stats.memory_bytes / 1e6,
      'MB bound': bound_bytes / 1e6,
      'barriers/token': stats.barriers_per_token,
    };
  }

  close(): Promise<void> {
    return this.#engine.close();
  }
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
