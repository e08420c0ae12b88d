// How many uploaded bytes the queue still holds: a browser copies what is written to it, so a loader that
// reads faster than the GPU takes would hold the whole model a second time.
const kMarkBytes = 2 << 20;

export class UploadGate {
  readonly #queue: GPUQueue;
  readonly #limit_bytes: number;
  #written_bytes = 0;
  #marked_bytes = 0;
  #taken_bytes = 0;
  #mark: Promise<void> = Promise.resolve();

  constructor(queue: GPUQueue, limit_bytes: number) {
    this.#queue = queue;
    this.#limit_bytes = limit_bytes;
  }

  add(size_bytes: number): void {
    this.#written_bytes += size_bytes;
    if (this.#written_bytes - this.#marked_bytes >= kMarkBytes) this.#setMark();
  }

  #setMark(): void {
    const written_bytes = this.#written_bytes;
    this.#marked_bytes = written_bytes;
    const take = () => {
      this.#taken_bytes = Math.max(this.#taken_bytes, written_bytes);
    };
    // A device that is lost takes nothing any more; its loss is reported elsewhere.
    this.#mark = this.#queue.onSubmittedWorkDone().then(take, take);
  }

  get outstanding_bytes(): number {
    return this.#written_bytes - this.#taken_bytes;
  }

  /** Waits until no more than the limit is outstanding. */
  async pass(): Promise<void> {
    while (this.outstanding_bytes > this.#limit_bytes) {
      if (this.#marked_bytes < this.#written_bytes) this.#setMark();
      await this.#mark;
    }
  }
}
