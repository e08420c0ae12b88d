// A runner is a subject that is ready: it runs one case at a time and gives a sample.
import type { Case, Sample } from './cases.js';

export interface Runner {
  run(one: Case): Promise<Sample>;
  close(): Promise<void>;
}
