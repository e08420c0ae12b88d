// The engine's linear memory. Growing detaches (or outdates) every view on it, so views are made
// anew whenever the buffer changed, and nobody keeps one across a call into the engine.
import type { NsExports } from './abi.gen.js';
import { EngineError } from './error.js';

const kEncoder = new TextEncoder();
const kDecoder = new TextDecoder();

export class LinearMemory {
  readonly #memory: WebAssembly.Memory;
  #view: DataView;
  #bytes: Uint8Array;

  constructor(memory: WebAssembly.Memory) {
    this.#memory = memory;
    this.#view = new DataView(memory.buffer);
    this.#bytes = new Uint8Array(memory.buffer);
  }

  #refresh(): void {
    const buffer = this.#memory.buffer;
    if (this.#view.buffer === buffer && this.#view.byteLength === buffer.byteLength) return;
    this.#view = new DataView(buffer);
    this.#bytes = new Uint8Array(buffer);
  }

  get view(): DataView {
    this.#refresh();
    return this.#view;
  }

  /** The bytes at [at, at + size_bytes), valid until the next call into the engine. */
  bytes(at: number, size_bytes: number): Uint8Array {
    this.#refresh();
    return this.#bytes.subarray(at, at + size_bytes);
  }

  /** Text; copied first, because TextDecoder refuses shared memory. */
  text(at: number, size_bytes: number): string {
    return kDecoder.decode(this.bytes(at, size_bytes).slice());
  }

  ids(at: number, count: number): number[] {
    const view = this.view;
    return Array.from({ length: count }, (_, i) => view.getInt32(at + 4 * i, true));
  }

  get size_bytes(): number {
    return this.#memory.buffer.byteLength;
  }
}

/**
 * One block of the engine's heap that is filled piece by piece and freed as a whole. Pieces are
 * collected first, so that the block is allocated once and no view outlives a growth.
 */
export class CallBlock {
  readonly #pieces: { offset: number; write: (memory: LinearMemory, at: number) => void }[] = [];
  #size_bytes = 0;

  /** Reserves a piece, 8-aligned; its offset becomes an address in place(). Empty pieces are fine. */
  add(size_bytes: number, write: (memory: LinearMemory, at: number) => void): number {
    const offset = this.#size_bytes;
    this.#pieces.push({ offset, write });
    this.#size_bytes += Math.ceil(size_bytes / 8) * 8;
    return offset;
  }

  addBytes(bytes: Uint8Array): number {
    return this.add(bytes.length, (memory, at) => memory.bytes(at, bytes.length).set(bytes));
  }

  addIds(ids: readonly number[]): number {
    ids.forEach(checkId);
    return this.add(4 * ids.length, (memory, at) => {
      const view = memory.view;
      ids.forEach((id, i) => view.setInt32(at + 4 * i, id, true));
    });
  }

  /** Calls `use` with the block's address; the block is freed afterwards. */
  place<T>(exports: NsExports, memory: LinearMemory, use: (base: number) => T): T {
    const base = exports.ns_alloc(Math.max(this.#size_bytes, 8));
    if (base === 0) {
      throw new EngineError(
        'out_of_memory',
        `The engine has no memory for a request of (${this.#size_bytes}) bytes.`,
      );
    }
    try {
      for (const piece of this.#pieces) piece.write(memory, base + piece.offset);
      return use(base);
    } finally {
      exports.ns_free(base);
    }
  }
}

/** The engine knows its vocabulary; here an id must only survive the way into 32 bits. */
export function checkId(id: number): void {
  if ((id | 0) === id) return;
  throw new EngineError('invalid_argument', `The token id (${id}) is no whole number of 32 bits.`);
}

export function encodeUtf8(text: string): Uint8Array {
  return kEncoder.encode(text);
}
