// A page that is opened for one token: from its opening (the zero of performance.now()) to the token, with
// the scripts, the worker, the module, the GPU and the model on the way.
import { firstTokenTime } from '../common/engine_runner.js';
import { kEngineWorker, type ColdReply, type ColdRequest } from './page_engine.js';

function isRequest(value: unknown): value is ColdRequest {
  return typeof value === 'object' && value !== null && 'setup' in value && 'ids' in value;
}

async function measure(): Promise<ColdReply> {
  try {
    const request: unknown = JSON.parse(decodeURIComponent(location.search.slice(1)));
    if (!isRequest(request)) throw new TypeError('The page was opened without a request.');
    return { time_ms: await firstTokenTime(request.setup, kEngineWorker, request.ids) };
  } catch (thrown) {
    return { error: thrown instanceof Error ? thrown.message : String(thrown) };
  }
}

parent.postMessage(await measure(), location.origin);
