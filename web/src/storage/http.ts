// Bytes over HTTP that arrive or say why not: bounded retries with back-off, resume by range after a
// cut connection, a stall noticed, and a file that changes midway refused. Used by the engine worker
// (a model by URL) and by the command line's downloads.
// Non-goals: a cache (see the callers), several connections at once.
import { EngineError } from '../wasm/error.js';
import { FileChanged, Transient, checkUrl, networkError } from './http_error.js';

export interface HttpOptions {
  signal?: AbortSignal | undefined;
  /** Start here; the rest of the file is read. */
  offset?: number;
  /** What the file was when its first `offset` bytes were read; a change is an error. */
  etag?: string | undefined;
  attempts?: number;
  backoff_ms?: number;
  stall_ms?: number;
}

export interface HttpHead {
  /** The whole file's size; -1 when the server does not say. */
  size_bytes: number;
  etag: string | undefined;
}

const kAttempts = 4;
const kBackoffMs = 250;
const kStallMs = 20_000;

export class HttpStream {
  readonly head: HttpHead;
  readonly #url: string;
  readonly #options: HttpOptions;
  #offset: number;
  #attempts_left: number;
  #body: ReadableStreamDefaultReader<Uint8Array> | undefined;
  #stop: AbortController | undefined;
  #skip = 0;

  private constructor(url: string, options: HttpOptions) {
    this.#url = url;
    this.#options = options;
    this.#offset = options.offset ?? 0;
    this.#attempts_left = options.attempts ?? kAttempts;
    this.head = { size_bytes: -1, etag: options.etag };
  }

  static async open(url: string, options: HttpOptions = {}): Promise<HttpStream> {
    checkUrl(url);
    const stream = new HttpStream(url, options);
    await stream.#retrying(() => stream.#connect());
    return stream;
  }

  /** The next bytes in file order; undefined at the end. */
  async read(): Promise<Uint8Array | undefined> {
    return this.#retrying(async () => {
      if (!this.#body) await this.#connect();
      return this.#readChunk();
    });
  }

  async close(): Promise<void> {
    this.#stop?.abort();
    await this.#body?.cancel().catch(() => {});
    this.#body = undefined;
  }

  async #retrying<T>(act: () => Promise<T>): Promise<T> {
    const limit = this.#options.attempts ?? kAttempts;
    for (;;) {
      try {
        const value = await act();
        this.#attempts_left = limit;
        return value;
      } catch (thrown) {
        this.#body = undefined;
        this.#stop?.abort();
        this.#options.signal?.throwIfAborted();
        if (!(thrown instanceof Transient)) throw thrown;
        this.#attempts_left -= 1;
        if (this.#attempts_left <= 0) {
          throw new EngineError(
            'network',
            `The download of "${this.#url}" failed after (${limit}) attempts: ${thrown.message}.`,
            { cause: thrown },
          );
        }
        const wait_ms =
          (this.#options.backoff_ms ?? kBackoffMs) * 3 ** (limit - this.#attempts_left - 1);
        await abortableWait(wait_ms, this.#options.signal);
      }
    }
  }

  async #connect(): Promise<void> {
    const headers: Record<string, string> = {};
    if (this.#offset > 0) headers['range'] = `bytes=${this.#offset}-`;
    const response = await this.#bounded((signal) => fetch(this.#url, { headers, signal }));
    if (response.status === 416 && this.#offset > 0) {
      throw new FileChanged(`"${this.#url}" is shorter than what was already read of it.`);
    }
    this.#checkStatus(response);
    this.#checkUnchanged(response);
    this.#skip = response.status === 206 ? 0 : this.#offset;
    if (!response.body) throw new Transient('the answer has no body');
    this.#body = response.body.getReader();
  }

  #checkStatus(response: Response): void {
    const { status } = response;
    if (response.ok) return;
    if (status === 404 || status === 410) {
      throw new EngineError('not_found', `There is no file at "${this.#url}" (HTTP ${status}).`);
    }
    if (status >= 500 || status === 429 || status === 408) throw new Transient(`HTTP ${status}`);
    throw new EngineError('network', `The server refused "${this.#url}" (HTTP ${status}).`);
  }

  /** Size and etag must be those of the first answer, and a range must start where it was asked. */
  #checkUnchanged(response: Response): void {
    const range = /^bytes (\d+)-\d+\/(\d+|\*)$/.exec(response.headers.get('content-range') ?? '');
    const plain = response.headers.get('content-encoding') === null;
    const length = plain ? Number(response.headers.get('content-length') ?? -1) : -1;
    const total = response.status === 206 ? Number(range?.[2] ?? -1) : length;
    const size_bytes = Number.isSafeInteger(total) ? total : -1;
    const etag = response.headers.get('etag') ?? undefined;
    if (response.status === 206 && Number(range?.[1] ?? -1) !== this.#offset) {
      throw new EngineError(
        'network',
        `The server sent another part of "${this.#url}" than was asked.`,
      );
    }
    const changed =
      (this.head.etag !== undefined && etag !== undefined && etag !== this.head.etag) ||
      (this.head.size_bytes >= 0 && size_bytes >= 0 && size_bytes !== this.head.size_bytes);
    if (changed) {
      throw new FileChanged(`"${this.#url}" changed while it was being downloaded.`);
    }
    if (this.head.size_bytes < 0) this.head.size_bytes = size_bytes;
    this.head.etag ??= etag;
  }

  async #readChunk(): Promise<Uint8Array | undefined> {
    for (;;) {
      const body = this.#body;
      if (!body) throw new Transient('the connection was closed');
      const { done, value } = await this.#bounded(() => body.read());
      if (done) {
        if (this.head.size_bytes >= 0 && this.#offset < this.head.size_bytes) {
          throw new Transient(
            `the connection ended at byte ${this.#offset} of ${this.head.size_bytes}`,
          );
        }
        return undefined;
      }
      const skipped = Math.min(this.#skip, value.length);
      this.#skip -= skipped;
      if (skipped === value.length) continue;
      const bytes = value.subarray(skipped);
      this.#offset += bytes.length;
      return bytes;
    }
  }

  /** Runs one network step; a stall or a cut becomes Transient, an abort stays one. */
  async #bounded<T>(step: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const caller = this.#options.signal;
    caller?.throwIfAborted();
    if (!this.#stop || this.#stop.signal.aborted) this.#stop = new AbortController();
    const stop = this.#stop;
    const stall_ms = this.#options.stall_ms ?? kStallMs;
    const forward = () => stop.abort(caller?.reason);
    caller?.addEventListener('abort', forward, { once: true });
    let stalled = false;
    const timer = setTimeout(() => {
      stalled = true;
      stop.abort();
    }, stall_ms);
    try {
      return await step(stop.signal);
    } catch (thrown) {
      caller?.throwIfAborted();
      if (stalled) throw new Transient(`no byte came for ${stall_ms} ms`);
      throw networkError(this.#url, thrown);
    } finally {
      clearTimeout(timer);
      caller?.removeEventListener('abort', forward);
    }
  }
}

function abortableWait(wait_ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(finish, wait_ms);
    function finish() {
      signal?.removeEventListener('abort', stop);
      resolve();
    }
    function stop() {
      clearTimeout(timer);
      reject(signal?.reason);
    }
    signal?.addEventListener('abort', stop, { once: true });
  });
}
