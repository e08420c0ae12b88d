// What the user sees: progress and figures on stderr, or with --json one object on stdout.
import type { GenerateResult, GpuCounts, LoadProgress } from '../../../web/src/api/index.js';
import type { JobResult, Surroundings } from './job.js';

const kProgressDelayMs = 1000;
const kProgressIntervalMs = 200;

/** One line on a terminal that is written over; elsewhere silent. */
export class ProgressLine {
  readonly #label: string;
  readonly #enabled: boolean;
  readonly #started_ms = performance.now();
  #written_ms = 0;
  #visible = false;

  constructor(label: string, enabled: boolean) {
    this.#label = label;
    this.#enabled = enabled && process.stderr.isTTY === true;
  }

  update({ loaded_bytes, total_bytes }: LoadProgress): void {
    const now_ms = performance.now();
    if (!this.#enabled || now_ms - this.#started_ms < kProgressDelayMs) return;
    if (now_ms - this.#written_ms < kProgressIntervalMs) return;
    this.#written_ms = now_ms;
    this.#visible = true;
    const of = total_bytes > 0 ? ` of ${megabytes(total_bytes)}` : '';
    const rate = loaded_bytes / 1e6 / ((now_ms - this.#started_ms) / 1000);
    process.stderr.write(
      `\r\x1b[K${this.#label}: ${megabytes(loaded_bytes)}${of}, ${rate.toFixed(1)} MB/s`,
    );
  }

  clear(): void {
    if (this.#visible) process.stderr.write('\r\x1b[K');
    this.#visible = false;
  }
}

export function megabytes(size_bytes: number): string {
  return `${(size_bytes / 1e6).toFixed(size_bytes < 1e7 ? 1 : 0)} MB`;
}

const round = (value: number, digits: number) => Number(value.toFixed(digits));
const roundOrNull = (value: number | null, digits: number) =>
  value === null ? null : round(value, digits);

function peakMemory({ stats }: Surroundings): number {
  return stats ? stats.memory_bytes + stats.gpu_bytes : 0;
}

/** The contract of --json; docs/command-line.md states each field and its unit. */
export function replyObject(
  model: string,
  host: string,
  { surroundings, outcome }: JobResult,
): Record<string, unknown> {
  if (outcome.verb !== 'generate') return {};
  const { result } = outcome;
  const { stats } = surroundings;
  const gpu = (name: keyof GpuCounts) => roundOrNull(result.gpu_per_token?.[name] ?? null, 2);
  return {
    text: result.text,
    token_ids: result.token_ids,
    prompt_ids: result.prompt_ids,
    finish_reason: result.finish_reason,
    model,
    host,
    backend: surroundings.backend,
    reason: surroundings.reason,
    adapter: surroundings.adapter,
    threads: surroundings.threads,
    dispatches_per_token: gpu('dispatches'),
    submits_per_token: gpu('submits'),
    waits_per_token: gpu('waits'),
    uploads_per_token: gpu('uploads'),
    readback_bytes_per_token: gpu('readback_bytes'),
    barriers_per_token: stats ? stats.barriers_per_token : null,
    load_ms: round(surroundings.load_ms, 1),
    ttft_ms: roundOrNull(result.ttft_ms, 1),
    prefill_tok_s: roundOrNull(result.prefill_tok_s, 2),
    decode_tok_s: roundOrNull(result.decode_tok_s, 2),
    peak_memory_bytes: peakMemory(surroundings),
    seed: result.seed,
    ...(result.logprobs ? { logprobs: result.logprobs } : {}),
  };
}

/** The line of figures below a reply. */
export function figuresLine(
  model: string,
  surroundings: Surroundings,
  result: GenerateResult,
): string {
  const { threads, load_ms, backend } = surroundings;
  const rate = (value: number | null) => (value === null ? '–' : value.toFixed(1));
  return [
    model,
    `${backend}, ${threads} ${threads === 1 ? 'thread' : 'threads'}`,
    `ready after ${(load_ms / 1000).toFixed(2)} s`,
    `first token after ${result.ttft_ms === null ? '–' : result.ttft_ms.toFixed(0)} ms`,
    `read ${result.read_count} tokens at ${rate(result.prefill_tok_s)}/s`,
    `wrote ${result.token_ids.length} at ${rate(result.decode_tok_s)}/s`,
    megabytes(peakMemory(surroundings)),
    result.finish_reason,
  ].join(' · ');
}
