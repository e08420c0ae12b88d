// The one worker file. Which worker it is follows from the role its starter gave: the engine's, a
// kernel thread's, or the chat templates'.
import { toErrorRecord } from '../wasm/error.js';
import { parentPort, type Port } from '../wasm/platform.js';
import { threadMain } from '../wasm/threads.js';
import type { Calls, CallMessage, RequestMessage, WorkerMessage } from './protocol.js';
import { Session } from './session.js';
import { templateMain } from './template_sandbox.js';

type EnginePort = Port<RequestMessage, WorkerMessage>;

function engineMain(): void {
  const { port } = parentPort<RequestMessage, WorkerMessage>();
  const session = new Session(new URL(import.meta.url));
  const stops = new Map<number, AbortController>();
  const served = new Set<Promise<void>>();
  port.onMessage((message) => {
    if (message.method === 'cancel') stops.get(message.id)?.abort();
    else if (message.method === 'end') void end(session, stops, served);
    else {
      const call = serve(port, session, stops, message).finally(() => served.delete(call));
      served.add(call);
    }
  });
  port.post({ id: 0, hello: true });
}

/** Node: ends with no promise of the GPU open and no worker of its own running (client.ts). */
async function end(
  session: Session,
  stops: Map<number, AbortController>,
  served: Set<Promise<void>>,
): Promise<void> {
  for (const stop of stops.values()) stop.abort();
  await session.close();
  await Promise.all(served);
  await session.close(); // what a call has opened meanwhile
  process.exit();
}

/** Runs one call; whatever happens, exactly one reply is sent. */
async function serve(
  port: EnginePort,
  session: Session,
  stops: Map<number, AbortController>,
  message: CallMessage,
): Promise<void> {
  const stop = new AbortController();
  stops.set(message.id, stop);
  try {
    port.post(await answer(port, session, message, stop.signal));
  } catch (thrown) {
    port.post({ id: message.id, error: toErrorRecord(thrown) });
  } finally {
    stops.delete(message.id);
  }
}

/** One case per method, so that parameters, events and result stay tied to it by type. */
async function answer(
  port: EnginePort,
  session: Session,
  message: CallMessage,
  signal: AbortSignal,
): Promise<WorkerMessage> {
  const { id } = message;
  switch (message.method) {
    case 'open': {
      const { method, params } = message;
      const emit = (event: Calls['open']['event']) => port.post({ id, method, event });
      return { id, method, result: await session.open(params, emit, signal) };
    }
    case 'generate': {
      const { method, params } = message;
      const emit = (event: Calls['generate']['event']) => port.post({ id, method, event });
      return { id, method, result: await session.generate(params, emit, signal) };
    }
    case 'render': {
      const { method, params } = message;
      return { id, method, result: { text: await session.render(params.messages) } };
    }
    case 'tokenize': {
      const { method, params } = message;
      return { id, method, result: { ids: await session.tokenize(params, signal) } };
    }
    case 'pieces': {
      const { method, params } = message;
      return { id, method, result: { pieces: await session.pieces(params.ids, signal) } };
    }
    case 'detokenize': {
      const { ids, with_special } = message.params;
      const text = session.core.detokenize(ids, with_special);
      return { id, method: message.method, result: { text } };
    }
    case 'plan': {
      const { plan_name, row_count, part } = message.params;
      const text = session.core.planText(plan_name, row_count, part);
      return { id, method: message.method, result: { text } };
    }
    case 'stats':
      return { id, method: message.method, result: session.core.stats() };
    case 'close':
      await session.close();
      return { id, method: message.method, result: null };
  }
}

switch (parentPort().role) {
  case 'nonstop-thread':
    threadMain();
    break;
  case 'nonstop-template':
    templateMain();
    break;
  default:
    engineMain();
}
