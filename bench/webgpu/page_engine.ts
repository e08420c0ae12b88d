// An engine in a page, whose cold first token is measured in a page of its own: a frame that opens anew.
import { EngineRunner, type EngineSetup } from '../common/engine_runner.js';

export const kEngineWorker = new URL('/nonstop/worker.mjs', location.href).href;
const kColdPage = new URL('/bench/cold.html', location.href).href;
const kColdLimitMs = 300_000;

/** What the frame is given, in its URL. */
export interface ColdRequest {
  setup: EngineSetup;
  ids: readonly number[];
}

/** What it posts. */
export type ColdReply = { time_ms: number } | { error: string };

export function startEngine(setup: EngineSetup): Promise<EngineRunner> {
  return EngineRunner.start(setup, kEngineWorker, coldFirstToken);
}

async function coldFirstToken(setup: EngineSetup, ids: readonly number[]): Promise<number> {
  const frame = document.createElement('iframe');
  const request: ColdRequest = { setup, ids };
  // A query, for a URL that differs only behind "#" would not open anew.
  frame.src = `${kColdPage}?${encodeURIComponent(JSON.stringify(request))}`;
  const reply = replyOf(frame);
  document.body.append(frame);
  try {
    const answer = await reply;
    if ('error' in answer) throw new Error(answer.error);
    return answer.time_ms;
  } finally {
    frame.remove();
  }
}

function replyOf(frame: HTMLIFrameElement): Promise<ColdReply> {
  return new Promise((resolve, reject) => {
    const stop = new AbortController();
    const timer = setTimeout(() => {
      stop.abort();
      reject(new Error(`The new page gave no token within ${kColdLimitMs / 1000} s.`));
    }, kColdLimitMs);
    const take = ({ source, data }: MessageEvent<unknown>) => {
      if (source !== frame.contentWindow || !isColdReply(data)) return;
      clearTimeout(timer);
      stop.abort();
      resolve(data);
    };
    addEventListener('message', take, { signal: stop.signal });
  });
}

function isColdReply(data: unknown): data is ColdReply {
  return typeof data === 'object' && data !== null && ('time_ms' in data || 'error' in data);
}
