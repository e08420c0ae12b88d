// Feeds a model's bytes to the engine: per file begin, (reserve, fill, commit)*, end. A stop request
// gets through between pieces. Progress is reported at most every 50 ms and once at the end.
import type { GpuPlayer } from '../gpu/player.js';
import { openSource, sourceName, type ByteReader, type ModelSource } from '../storage/source.js';
import { kCommit, type EngineCore } from '../wasm/core.js';
import { fromErrorRecord, toEngineError } from '../wasm/error.js';
import { withTimeout, yieldToMessages } from '../wasm/platform.js';
import type { LoadProgress } from './protocol.js';

const kPieceBytes = 1024 * 1024;
const kProgressIntervalMs = 50;
const kYieldIntervalMs = 10;
const kPumpBudgetUs = 10_000;
/** A software adapter takes a second for each pipeline. */
const kGpuLimitMs = 300_000;

export interface LoadRun {
  core: EngineCore;
  /** Where the GPU computes. */
  player: GpuPlayer | undefined;
  source: ModelSource;
  header_only: boolean;
  signal: AbortSignal;
  onProgress: (progress: LoadProgress) => void;
}

export async function loadModel(run: LoadRun): Promise<void> {
  try {
    const meter = new ProgressMeter(run.onProgress);
    for (let index = 0, count = 1; index < count; index++) {
      const reader = await openSource(run.source, index, count, run.signal);
      try {
        await loadFile(run, index, reader, meter);
      } finally {
        await reader.close();
      }
      if (index === 0) count = run.core.splitCount();
    }
    if (!run.header_only) {
      run.core.loadFinish();
      if (run.player) await makeGpuReady(run.core, run.player, run.signal);
    }
    meter.finish();
  } catch (thrown) {
    const error = toEngineError(thrown);
    throw error.code === 'aborted' ? error : error.with(`Model "${sourceName(run.source)}"`);
  }
}

function withinLimit(work: Promise<void>): Promise<void> {
  return withTimeout(work, kGpuLimitMs, `The GPU has not answered within ${kGpuLimitMs} ms.`);
}

/** Waits until everything on the GPU was made, and lets the engine try it; throws what went wrong. */
async function makeGpuReady(
  core: EngineCore,
  player: GpuPlayer,
  signal: AbortSignal,
): Promise<void> {
  await withinLimit(player.settle());
  for (let state = core.pump(kPumpBudgetUs); state !== 'idle'; state = core.pump(kPumpBudgetUs)) {
    await (state === 'wait' ? withinLimit(player.nextReport()) : yieldToMessages());
    if (player.failure) throw player.failure;
    signal.throwIfAborted();
  }
  for (const event of core.takeEvents()) {
    if (event.kind === 'error') throw fromErrorRecord(event.error);
  }
}

async function loadFile(
  run: LoadRun,
  index: number,
  reader: ByteReader,
  meter: ProgressMeter,
): Promise<void> {
  const { core, signal } = run;
  meter.addFile(reader.size_bytes);
  core.loadBegin(index, reader.size_bytes);
  let yielded_ms = performance.now();
  for (;;) {
    signal.throwIfAborted();
    const size_bytes = await reader.read(kPieceBytes, (wanted) => core.loadReserve(wanted));
    if (size_bytes === 0) break;
    const state = core.loadCommit(size_bytes);
    if (run.player) await withinLimit(run.player.passUploads());
    meter.add(size_bytes);
    if (state === kCommit.file) break;
    // The headers of a split model are spread over its files, so those are read to the end.
    if (state === kCommit.header && run.header_only && core.splitCount() === 1) return;
    if (performance.now() - yielded_ms > kYieldIntervalMs) {
      await yieldToMessages();
      yielded_ms = performance.now();
    }
  }
  core.loadEnd();
}

class ProgressMeter {
  readonly #report: (progress: LoadProgress) => void;
  #loaded_bytes = 0;
  #total_bytes = 0;
  #reported_ms = 0;

  constructor(report: (progress: LoadProgress) => void) {
    this.#report = report;
  }

  addFile(size_bytes: number): void {
    const known = this.#total_bytes >= 0 && size_bytes >= 0;
    this.#total_bytes = known ? this.#total_bytes + size_bytes : -1;
  }

  add(size_bytes: number): void {
    this.#loaded_bytes += size_bytes;
    const now_ms = performance.now();
    if (now_ms - this.#reported_ms < kProgressIntervalMs) return;
    this.#reported_ms = now_ms;
    this.finish();
  }

  finish(): void {
    this.#report({ loaded_bytes: this.#loaded_bytes, total_bytes: this.#total_bytes });
  }
}
