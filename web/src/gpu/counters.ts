// What tokens cost, counted where it happens. A submission's share counts when its read-backs are there: so
// what is under way for the next token is not taken for this one's.
export interface GpuCounts {
  dispatches: number;
  submits: number;
  /** Times that the GPU had run out of work when a read-back came. */
  waits: number;
  uploads: number;
  readback_bytes: number;
}

const kNone: GpuCounts = { dispatches: 0, submits: 0, waits: 0, uploads: 0, readback_bytes: 0 };

function add(a: GpuCounts, b: GpuCounts): GpuCounts {
  return {
    dispatches: a.dispatches + b.dispatches,
    submits: a.submits + b.submits,
    waits: a.waits + b.waits,
    uploads: a.uploads + b.uploads,
    readback_bytes: a.readback_bytes + b.readback_bytes,
  };
}

export class GpuCounter {
  #done = kNone;
  #pending: { ticket: number; counts: GpuCounts }[] = [];
  #uploads = 0;

  addUpload(): void {
    this.#uploads += 1;
  }

  /** Uploads before a submission are part of it. */
  addSubmit(ticket: number, dispatches: number, readback_bytes: number): void {
    const counts = { dispatches, submits: 1, waits: 0, uploads: this.#uploads, readback_bytes };
    this.#uploads = 0;
    this.#pending.push({ ticket, counts });
  }

  /** Submissions end in order. */
  endTicket(ticket: number): void {
    while (this.#pending[0] && this.#pending[0].ticket <= ticket) {
      this.#done = add(this.#done, this.#pending[0].counts);
      this.#pending.shift();
    }
    if (this.#pending.length === 0) this.#done = add(this.#done, { ...kNone, waits: 1 });
  }

  /** Of all submissions that have ended. */
  get counts(): GpuCounts {
    return this.#done;
  }
}

/** The cost of one token: what came between two states of the counter, over so many tokens. */
export function perToken(from: GpuCounts, to: GpuCounts, token_count: number): GpuCounts | null {
  if (token_count <= 0) return null;
  const share = (name: keyof GpuCounts) => (to[name] - from[name]) / token_count;
  return {
    dispatches: share('dispatches'),
    submits: share('submits'),
    waits: share('waits'),
    uploads: share('uploads'),
    readback_bytes: share('readback_bytes'),
  };
}
