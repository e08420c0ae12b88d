// Where a model's bytes come from, and how they get into linear memory. A source is plain data, so
// that it can be posted to the worker; a reader pulls its bytes in file order straight to where the
// engine wants them. A split model is named by its first file.
import { EngineError } from '../wasm/error.js';
import { isNode } from '../wasm/platform.js';
import { HttpStream } from './http.js';

export type ModelSource =
  | { kind: 'url'; url: string }
  | { kind: 'file'; path: string }
  | { kind: 'blobs'; blobs: readonly Blob[] };

export interface ByteReader {
  /** -1 when unknown. */
  readonly size_bytes: number;
  /**
   * Writes the next bytes into `target(size_bytes)`, at most `wanted_bytes` of them; returns how
   * many, 0 at the end. `target` is called right before the bytes are written.
   */
  read(wanted_bytes: number, target: (size_bytes: number) => Uint8Array): Promise<number>;
  close(): Promise<void>;
}

const kSplitName = /-(\d{5})-of-(\d{5})(\.gguf)(?=$|[?#])/;

/** The name of file `index` (from 0) of a split model, from the name of its first file. */
export function splitFileName(first: string, index: number, count: number): string {
  const match = kSplitName.exec(first);
  if (!match || Number(match[1]) !== 1 || Number(match[2]) !== count) {
    throw new EngineError(
      'invalid_argument',
      `The model is split into (${count}) files, but the name "${first}" is not that of the first ` +
        `one ("…-00001-of-${String(count).padStart(5, '0')}.gguf").`,
    );
  }
  return first.replace(kSplitName, `-${String(index + 1).padStart(5, '0')}-of-$2$3`);
}

/** A name of the source for messages. */
export function sourceName(source: ModelSource): string {
  if (source.kind === 'url') return source.url;
  if (source.kind === 'file') return source.path;
  const first = source.blobs[0];
  return first && 'name' in first ? String(first.name) : 'blob';
}

export async function openSource(
  source: ModelSource,
  index: number,
  count: number,
  signal: AbortSignal,
): Promise<ByteReader> {
  switch (source.kind) {
    case 'url':
      return openUrl(index === 0 ? source.url : splitFileName(source.url, index, count), signal);
    case 'file':
      return openFile(index === 0 ? source.path : splitFileName(source.path, index, count));
    case 'blobs': {
      const blob = source.blobs[index];
      if (!blob) {
        throw new EngineError(
          'not_found',
          `The model is split into (${count}) files; only (${source.blobs.length}) were given.`,
        );
      }
      return openBlob(blob);
    }
  }
}

/** Hands out a stream's chunks in pieces of the size that is wanted. */
class ChunkReader implements ByteReader {
  readonly size_bytes: number;
  readonly #next: () => Promise<Uint8Array | undefined>;
  readonly #close: () => Promise<void>;
  #chunk: Uint8Array = new Uint8Array(0);

  constructor(
    size_bytes: number,
    next: () => Promise<Uint8Array | undefined>,
    close: () => Promise<void>,
  ) {
    this.size_bytes = size_bytes;
    this.#next = next;
    this.#close = close;
  }

  async read(wanted_bytes: number, target: (size_bytes: number) => Uint8Array): Promise<number> {
    while (this.#chunk.length === 0) {
      const chunk = await this.#next();
      if (!chunk) return 0;
      this.#chunk = chunk;
    }
    const size_bytes = Math.min(wanted_bytes, this.#chunk.length);
    target(size_bytes).set(this.#chunk.subarray(0, size_bytes));
    this.#chunk = this.#chunk.subarray(size_bytes);
    return size_bytes;
  }

  close(): Promise<void> {
    return this.#close();
  }
}

async function openUrl(url: string, signal: AbortSignal): Promise<ByteReader> {
  const stream = await HttpStream.open(url, { signal });
  return new ChunkReader(
    stream.head.size_bytes,
    () => stream.read(),
    () => stream.close(),
  );
}

function openBlob(blob: Blob): ByteReader {
  const reader = blob.stream().getReader();
  return new ChunkReader(
    blob.size,
    async () => {
      const { done, value } = await reader.read().catch((cause: unknown) => {
        throw new EngineError('storage', `The file could not be read (${String(cause)}).`, {
          cause,
        });
      });
      return done ? undefined : value;
    },
    () => reader.cancel(),
  );
}

/** Node: reads from the file straight into linear memory. */
async function openFile(path: string): Promise<ByteReader> {
  if (!isNode) {
    throw new EngineError('invalid_argument', `A page cannot open the file "${path}" by its path.`);
  }
  const fs = process.getBuiltinModule('node:fs');
  const fd = openOrThrow(fs, path);
  const stat = fs.fstatSync(fd);
  if (!stat.isFile()) {
    fs.closeSync(fd);
    throw new EngineError('not_found', `"${path}" is not a file.`);
  }
  return {
    size_bytes: stat.size,
    read: async (wanted_bytes, target) => {
      const view = target(wanted_bytes);
      try {
        return fs.readSync(fd, view, 0, view.length, null);
      } catch (cause) {
        throw new EngineError(
          'storage',
          `The file "${path}" could not be read (${String(cause)}).`,
          {
            cause,
          },
        );
      }
    },
    close: async () => fs.closeSync(fd),
  };
}

function openOrThrow(fs: typeof import('node:fs'), path: string): number {
  try {
    return fs.openSync(path, 'r');
  } catch (cause) {
    const code = cause instanceof Error && 'code' in cause ? String(cause.code) : '';
    if (code === 'ENOENT' || code === 'ENOTDIR') {
      throw new EngineError('not_found', `There is no file "${path}".`, { cause });
    }
    throw new EngineError('storage', `The file "${path}" could not be opened (${code}).`, {
      cause,
    });
  }
}
