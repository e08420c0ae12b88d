// Runs chat templates in a worker of their own, which is ended when a template takes too long: the
// engine worker, and the replies of others, never wait for a hostile template. The worker starts
// while the model loads and is kept; after it was ended, the next render starts a new one.
import { EngineError, fromErrorRecord, toErrorRecord, type ErrorRecord } from '../wasm/error.js';
import { parentPort, spawnWorker, withTimeout, type WorkerHandle } from '../wasm/platform.js';
import { renderTemplate, type TemplateInput } from './template_render.js';

const kStartLimitMs = 10_000;
const kRenderLimitMs = 2_000;
const kHeapMib = 256;

type Request = { id: number; input: TemplateInput };
type Reply = { id: number; text: string } | { id: number; error: ErrorRecord };

interface Sandbox {
  worker: WorkerHandle<Reply, Request>;
  ready: Promise<void>;
  waiting: Map<number, (reply: Reply) => void>;
  failed: Promise<never>;
}

export class TemplateSandbox {
  readonly #url: URL;
  #sandbox: Sandbox | undefined;
  #next_id = 1;

  constructor(url: URL) {
    this.#url = url;
  }

  /** Starts the worker, so that the first render does not wait for it. */
  warm(): void {
    this.#sandbox ??= startSandbox(this.#url);
  }

  async render(input: TemplateInput): Promise<string> {
    this.warm();
    const sandbox = this.#sandbox;
    if (!sandbox) throw new EngineError('internal', 'The template worker is not there.');
    const id = this.#next_id++;
    try {
      await withTimeout(
        Promise.race([sandbox.ready, sandbox.failed]),
        kStartLimitMs,
        'The template worker did not start.',
      );
      const reply = await withTimeout(
        Promise.race([this.#ask(sandbox, id, input), sandbox.failed]),
        kRenderLimitMs,
        `The chat template takes too long, in ms (limit ${kRenderLimitMs}).`,
      );
      if ('error' in reply) throw fromErrorRecord(reply.error);
      return reply.text;
    } catch (thrown) {
      if (thrown instanceof EngineError && thrown.code === 'template_error') throw thrown;
      await this.close();
      const detail = thrown instanceof Error ? thrown.message : String(thrown);
      throw new EngineError('template_error', detail, { cause: thrown });
    } finally {
      sandbox.waiting.delete(id);
    }
  }

  #ask(sandbox: Sandbox, id: number, input: TemplateInput): Promise<Reply> {
    return new Promise((resolve) => {
      sandbox.waiting.set(id, resolve);
      sandbox.worker.post({ id, input });
    });
  }

  async close(): Promise<void> {
    const sandbox = this.#sandbox;
    this.#sandbox = undefined;
    await sandbox?.worker.terminate();
  }
}

function startSandbox(url: URL): Sandbox {
  const worker = spawnWorker<Reply, Request>(url, 'nonstop-template', { heap_mib: kHeapMib });
  const waiting = new Map<number, (reply: Reply) => void>();
  const failed = new Promise<never>((_, reject) => worker.onFailure(reject));
  failed.catch(() => {});
  const ready = new Promise<void>((resolve) => {
    worker.onMessage((reply) => {
      if (reply.id === 0) resolve();
      else waiting.get(reply.id)?.(reply);
    });
  });
  return { worker, ready, waiting, failed };
}

/** The body of the template worker. */
export function templateMain(): void {
  const { port } = parentPort<Request, Reply>();
  port.onMessage(({ id, input }) => {
    try {
      port.post({ id, text: renderTemplate(input) });
    } catch (thrown) {
      port.post({ id, error: toErrorRecord(thrown) });
    }
  });
  port.post({ id: 0, text: '' });
}
