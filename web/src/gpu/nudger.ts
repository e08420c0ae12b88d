// Makes the GPU's news come soon. A browser's GPU process notices that work has ended when it gets a message,
// and else only when it looks by itself, every few milliseconds: in Chromium 156 on an H200 a read-back of short
// work came after 3.0 ms, and after 0.2 ms where an empty submission followed each 0.1 ms. So while something is
// awaited that no other work follows, empty submissions follow it. In Node, Dawn looks all the time.
import { isNode, yieldToMessages } from '../wasm/platform.js';

const kIntervalMs = 0.25;
/** To work that lasts longer a look that comes late does not matter. */
const kMostMs = 25;

export interface NudgerClock {
  now(): number;
  pause(): Promise<unknown>;
}

export class Nudger {
  readonly #queue: Pick<GPUQueue, 'submit'>;
  readonly #isWanted: () => boolean;
  readonly #clock: NudgerClock;
  #end_ms = 0;
  #is_going = false;

  constructor(
    queue: Pick<GPUQueue, 'submit'>,
    isWanted: () => boolean,
    clock: NudgerClock = kClock,
  ) {
    this.#queue = queue;
    this.#isWanted = isWanted;
    this.#clock = clock;
  }

  /** To be called when something new is awaited. */
  begin(): void {
    this.#end_ms = this.#clock.now() + kMostMs;
    if (!this.#is_going && this.#isWanted()) void this.#go();
  }

  async #go(): Promise<void> {
    this.#is_going = true;
    let last_ms = this.#clock.now();
    for (;;) {
      await this.#clock.pause();
      const now_ms = this.#clock.now();
      if (!this.#isWanted() || now_ms >= this.#end_ms) break;
      if (now_ms - last_ms < kIntervalMs) continue;
      last_ms = now_ms;
      this.#queue.submit([]);
    }
    this.#is_going = false;
  }
}

/** Undefined where a pause would have to be whole milliseconds. */
function sharedCell(): Int32Array | undefined {
  if (typeof Atomics.waitAsync !== 'function' || isNode) return undefined;
  try {
    const memory = new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true });
    return new Int32Array(memory.buffer, 0, 1);
  } catch {
    return undefined;
  }
}

function makePause(): () => Promise<unknown> {
  const cell = sharedCell();
  if (!cell) return yieldToMessages;
  // Nobody wakes it. Its time-outs, unlike timers, are not rounded up to milliseconds.
  return async () => {
    const { async: is_async, value } = Atomics.waitAsync(cell, 0, 0, kIntervalMs);
    if (is_async) await value;
  };
}

let pause: (() => Promise<unknown>) | undefined;
const kClock: NudgerClock = {
  now: () => performance.now(),
  pause: () => (pause ??= makePause())(),
};
