// The page of --host chromium: runs a job handed in by the command line and hands back its result.
import { toEngineError } from '../../../web/src/api/index.js';
import { runJob, type Job, type JobEvent, type JobResult } from './job.js';

export interface PageFailure {
  error: { code: string; message: string };
}

declare global {
  /** Defined by the command line. */
  function nonstopTell(event: JobEvent): Promise<void>;
  function nonstopRun(job: Job): Promise<JobResult | PageFailure>;
  function nonstopStop(): void;
}

const stop = new AbortController();
const kWorkerUrl = new URL('/nonstop/worker.mjs', location.href).href;

globalThis.nonstopStop = () => stop.abort();
globalThis.nonstopRun = async (job) => {
  const told: Promise<void>[] = [];
  try {
    return await runJob(job, kWorkerUrl, (event) => told.push(nonstopTell(event)), stop.signal);
  } catch (thrown) {
    const { code, message } = toEngineError(thrown);
    return { error: { code, message } };
  } finally {
    await Promise.all(told);
  }
};
