// Takes the samples: round by round, measurement by measurement, its subjects in turns. What fails is
// noted and left out of the later rounds; a stop keeps what there is.
import { toEngineError } from '../../web/src/api/index.js';
import { withTimeout } from '../../web/src/wasm/platform.js';
import { kUnits, setupKey, type Case, type Sample, type Setup, type Unit } from './cases.js';
import type { Measurement } from './plan.js';
import type { About, Runner } from './runner.js';

/** One quantity of one subject, by round. */
export interface Series {
  what: string;
  unit: Unit;
  setup: Setup;
  values: Map<number, number>;
}

export interface Failure {
  what: string;
  setup: Setup;
  message: string;
}

export interface Step {
  what: string;
  setup: Setup;
  /** -1 while subjects are made ready. */
  round: number;
}

export interface RoundsOptions {
  round_count: number;
  start: (setup: Setup) => Promise<Runner>;
  signal: AbortSignal;
  /** Called before each step, with all that are still to come. */
  onStep: (step: Step, to_come: readonly Step[]) => void;
}

export interface Collected {
  /** Those that started, with what they say of themselves. */
  subjects: { setup: Setup; about: About }[];
  series: Series[];
  failures: Failure[];
}

const kSampleLimitMs = 600_000;
const kStart = 'start';

/** Facts do not change from round to round. */
function roundsOf({ one }: Measurement, round_count: number): number {
  return one.kind === 'facts' ? 1 : round_count;
}

/** The facts come last: memory has grown by then to what it needs. */
function makeSteps(measurements: readonly Measurement[], round_count: number): Step[] {
  const setups = new Map<string, Setup>();
  for (const { setups: list } of measurements) {
    for (const setup of list) setups.set(setupKey(setup), setup);
  }
  const steps: Step[] = [...setups.values()].map((setup) => ({ what: kStart, setup, round: -1 }));
  for (let round = 0; round < round_count; round++) {
    for (const measurement of measurements) {
      const is_last = round === round_count - 1;
      if (roundsOf(measurement, round_count) === 1 && !is_last) continue;
      for (const setup of measurement.setups) steps.push({ what: measurement.what, setup, round });
    }
  }
  return steps;
}

export async function takeSamples(
  measurements: readonly Measurement[],
  options: RoundsOptions,
): Promise<Collected> {
  const taker = new Taker(measurements, options);
  const steps = makeSteps(measurements, options.round_count);
  try {
    for (const [index, step] of steps.entries()) {
      if (options.signal.aborted) break;
      options.onStep(step, steps.slice(index));
      await taker.take(step);
    }
    return taker.collected;
  } finally {
    await taker.close();
  }
}

/** Short cases, of each kind that asks for a reply. */
function isWarmUp(one: Case): boolean {
  switch (one.kind) {
    case 'decode':
      return one.context < 512;
    case 'prefill':
      return one.tokens <= 64;
    case 'first-token':
      return !one.is_cold;
    // Each number of rows has steps of its own.
    case 'together':
      return true;
    default:
      return false;
  }
}

class Taker {
  readonly collected: Collected = { subjects: [], series: [], failures: [] };
  readonly #cases: Map<string, Measurement>;
  readonly #options: RoundsOptions;
  readonly #runners = new Map<string, Runner>();
  readonly #series = new Map<string, Series>();
  readonly #failed = new Set<string>();

  constructor(measurements: readonly Measurement[], options: RoundsOptions) {
    this.#cases = new Map(measurements.map((measurement) => [measurement.what, measurement]));
    this.#options = options;
  }

  async take(step: Step): Promise<void> {
    const key = setupKey(step.setup);
    if (this.#failed.has(key) || this.#failed.has(`${step.what} ${key}`)) return;
    try {
      await this.#stoppable(step.what === kStart ? this.#start(step, key) : this.#run(step, key));
    } catch (thrown) {
      if (this.#options.signal.aborted) return;
      const message = thrown instanceof Error ? thrown.message : String(thrown);
      this.collected.failures.push({ what: step.what, setup: step.setup, message });
      // What did not answer in time will not answer the next question either.
      const is_lost = step.what === kStart || toEngineError(thrown).code === 'timeout';
      this.#failed.add(is_lost ? key : `${step.what} ${key}`);
      if (is_lost) await this.#end(key);
    }
  }

  /** A lost subject must neither compute beside the others nor hold the program. */
  async #end(key: string): Promise<void> {
    const runner = this.#runners.get(key);
    this.#runners.delete(key);
    await runner?.close();
  }

  /** Ready means warm: a short case of each kind has run, so that the compilers are done. */
  async #start({ setup }: Step, key: string): Promise<void> {
    const runner = await this.#options.start(setup);
    if (this.#options.signal.aborted || this.#failed.has(key)) return runner.close();
    this.#runners.set(key, runner);
    this.collected.subjects.push({ setup, about: runner.about ?? {} });
    for (const { one, setups } of this.#cases.values()) {
      if (!setups.some((other) => setupKey(other) === key)) continue;
      if (isWarmUp(one)) await runner.run(one);
    }
  }

  async #run({ what, setup, round }: Step, key: string): Promise<void> {
    const runner = this.#runners.get(key);
    const measurement = this.#cases.get(what);
    if (runner && measurement) this.#add(what, setup, round, await runner.run(measurement.one));
  }

  #add(what: string, setup: Setup, round: number, sample: Sample): void {
    for (const [unit, value] of Object.entries(sample)) {
      if (!Number.isFinite(value) || value < 0) {
        throw new Error(`The sample is (${value}) ${unit}.`);
      }
      const key = `${what} ${unit} ${setupKey(setup)}`;
      const found = this.#series.get(key) ?? {
        ...{ what, unit: toUnit(unit), setup },
        values: new Map<number, number>(),
      };
      if (!this.#series.has(key)) {
        this.#series.set(key, found);
        this.collected.series.push(found);
      }
      found.values.set(round, value);
    }
  }

  /** A stop does not wait for the case under way; its runner is closed with the others. */
  #stoppable(work: Promise<void>): Promise<void> {
    const { signal } = this.#options;
    const stopped = new Promise<never>((_, reject) => {
      const stop = () => reject(new Error('Stopped.'));
      if (signal.aborted) stop();
      signal.addEventListener('abort', stop, { once: true });
    });
    stopped.catch(() => {});
    work.catch(() => {});
    const limited = withTimeout(work, kSampleLimitMs, `It took over ${kSampleLimitMs / 1000} s.`);
    return Promise.race([limited, stopped]);
  }

  async close(): Promise<void> {
    for (const runner of this.#runners.values()) await runner.close();
  }
}

function toUnit(text: string): Unit {
  const unit = kUnits.find((one) => one === text);
  if (unit === undefined) throw new TypeError(`There is no unit "${text}".`);
  return unit;
}
