// Read-backs: a ring of mapped buffers. A submission's wanted bytes are copied on the GPU to a buffer of the
// ring, which is mapped as soon as the queue has come so far; from there they go to linear memory.
import type { LinearMemory } from '../wasm/memory.js';

const kMapRead = 1;
const kCopyDst = 8;
const kReadMode = 1;
const kLeastBytes = 4096;

export interface Readback {
  buffer: GPUBuffer;
  offset_bytes: number;
  size_bytes: number;
  destination: number;
}

export class ReadbackRing {
  readonly #device: GPUDevice;
  readonly #memory: () => LinearMemory;
  readonly #free: GPUBuffer[] = [];
  readonly #all = new Set<GPUBuffer>();

  constructor(device: GPUDevice, memory: () => LinearMemory) {
    this.#device = device;
    this.#memory = memory;
  }

  /** Encodes the copies; what it returns is to be called once after the submission. */
  encode(encoder: GPUCommandEncoder, readbacks: readonly Readback[]): () => Promise<void> {
    const size_bytes = readbacks.reduce((sum, one) => sum + one.size_bytes, 0);
    const ring = this.#take(size_bytes);
    let at = 0;
    for (const { buffer, offset_bytes, size_bytes } of readbacks) {
      encoder.copyBufferToBuffer(buffer, offset_bytes, ring, at, size_bytes);
      at += size_bytes;
    }
    return async () => {
      await ring.mapAsync(kReadMode, 0, size_bytes);
      const mapped = new Uint8Array(ring.getMappedRange(0, size_bytes));
      let from = 0;
      for (const { destination, size_bytes } of readbacks) {
        this.#memory()
          .bytes(destination, size_bytes)
          .set(mapped.subarray(from, from + size_bytes));
        from += size_bytes;
      }
      ring.unmap();
      this.#free.push(ring);
    };
  }

  /** Sizes are powers of two, so that a few buffers serve all submissions. */
  #take(size_bytes: number): GPUBuffer {
    let size = kLeastBytes;
    while (size < size_bytes) size *= 2;
    const found = this.#free.findIndex((buffer) => buffer.size === size);
    const [free] = found < 0 ? [] : this.#free.splice(found, 1);
    if (free) return free;
    const buffer = this.#device.createBuffer({
      label: 'readback',
      size,
      usage: kMapRead | kCopyDst,
    });
    this.#all.add(buffer);
    return buffer;
  }

  destroy(): void {
    for (const buffer of this.#all) buffer.destroy();
    this.#all.clear();
    this.#free.length = 0;
  }
}
