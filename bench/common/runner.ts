// A runner is a subject that is ready: it runs one case at a time and gives a sample.
import type { Case, Sample } from './cases.js';

/** What a subject says of itself, for the result: its adapter, why it was chosen. */
export type About = Record<string, unknown>;

export interface Runner {
  readonly about?: About;
  run(one: Case): Promise<Sample>;
  close(): Promise<void>;
}
