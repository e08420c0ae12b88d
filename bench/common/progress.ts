// Who is measured now, and for how long still, on stderr: a line that is written over on a terminal,
// elsewhere a line for each round and now and then.
import { describeSetup, setupKey } from './cases.js';
import type { Step } from './rounds.js';

const kPlainIntervalMs = 5000;

function stepKey({ what, setup }: Step): string {
  return `${what} ${setupKey(setup)}`;
}

/** Seconds that `steps` will take: each as long as last time, or else as the average so far. */
export class TimeLeft {
  readonly #seconds = new Map<string, number>();
  #sum = 0;
  #count = 0;

  note(step: Step, seconds: number): void {
    this.#seconds.set(stepKey(step), seconds);
    this.#sum += seconds;
    this.#count += 1;
  }

  /** Undefined until something was measured. */
  estimate(steps: readonly Step[]): number | undefined {
    if (this.#count === 0) return undefined;
    const average = this.#sum / this.#count;
    return steps.reduce((sum, step) => sum + (this.#seconds.get(stepKey(step)) ?? average), 0);
  }
}

/** A part of NodeJS.WriteStream; a page has one of its own. */
export interface ProgressStream {
  readonly isTTY?: boolean;
  write(text: string): unknown;
}

export class Progress {
  readonly #label: string;
  readonly #round_count: number;
  readonly #stream: ProgressStream;
  readonly #left = new TimeLeft();
  #under_way: { step: Step; since_ms: number } | undefined;
  #written_ms = -Infinity;
  #round: number | undefined;

  constructor(label: string, round_count: number, stream: ProgressStream) {
    this.#label = label;
    this.#round_count = round_count;
    this.#stream = stream;
  }

  next(step: Step, to_come: readonly Step[]): void {
    const now_ms = performance.now();
    if (this.#under_way) {
      this.#left.note(this.#under_way.step, (now_ms - this.#under_way.since_ms) / 1000);
    }
    this.#under_way = { step, since_ms: now_ms };
    const is_terminal = this.#stream.isTTY === true;
    const is_due = now_ms - this.#written_ms >= kPlainIntervalMs || step.round !== this.#round;
    if (!is_terminal && !is_due) return;
    this.#written_ms = now_ms;
    this.#round = step.round;
    const text = this.#text(step, to_come);
    this.#stream.write(is_terminal ? `\r\x1b[K${text}` : `${text}\n`);
  }

  #text(step: Step, to_come: readonly Step[]): string {
    const round = step.round < 0 ? 'getting ready' : `round ${step.round + 1}/${this.#round_count}`;
    const seconds = this.#left.estimate(to_come);
    const left = seconds === undefined ? '' : `, ${formatDuration(seconds)} left`;
    const what = step.round < 0 ? '' : `${step.what}, `;
    return `${this.#label}, ${round}: ${what}${describeSetup(step.setup)}${left}`;
  }

  clear(): void {
    if (this.#stream.isTTY === true) this.#stream.write('\r\x1b[K');
  }
}

export function formatDuration(seconds: number): string {
  const whole = Math.round(seconds);
  return whole < 60 ? `${whole} s` : `${Math.floor(whole / 60)} min ${whole % 60} s`;
}
