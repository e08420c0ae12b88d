// What came of a run: as tables for a reader, and as the object that --json writes. In Node and in a page.
import type { BenchModel } from './bench_model.js';
import { describeSetup, type Setup } from './cases.js';
import { makeRows, type Quality, type Row } from './results.js';
import type { Collected, Failure } from './rounds.js';
import type { About } from './runner.js';
import { formatCosts, formatRatios, formatRows } from './table.js';

const kSchemaVersion = 1;
export const kRounds = { quick: 3, whole: 5 };

export interface Outcome {
  rows: Row[];
  subjects: (Setup & About & { model: string })[];
  failures: (Failure & { model: string })[];
}

/** Of one model. */
export function toOutcome(
  model: BenchModel,
  { series, subjects, failures }: Collected,
  quality: Quality,
): Outcome {
  const { name } = model;
  return {
    rows: makeRows(model, series, quality),
    subjects: subjects.map(({ setup, about }) => ({ model: name, ...setup, ...about })),
    failures: failures.map((failure) => ({ model: name, ...failure })),
  };
}

export function joinOutcomes(outcomes: readonly Outcome[]): Outcome {
  return {
    rows: outcomes.flatMap(({ rows }) => rows),
    subjects: outcomes.flatMap(({ subjects }) => subjects),
    failures: outcomes.flatMap(({ failures }) => failures),
  };
}

export interface RunFacts {
  bench: 'cpu' | 'webgpu';
  begin: Date;
  quick: boolean;
  complete: boolean;
  revision: { commit: string | null; dirty: boolean | null };
  machine: Record<string, unknown>;
  models: readonly BenchModel[];
  versions: Record<string, string | null>;
}

export function toJson(facts: RunFacts, { rows, subjects, failures }: Outcome): object {
  const { bench, begin, quick, complete, revision, machine, models, versions } = facts;
  return {
    schema: kSchemaVersion,
    kind: `nonstop bench ${bench}`,
    date: begin.toISOString(),
    seconds: secondsSince(begin),
    ...revision,
    quick,
    rounds: quick ? kRounds.quick : kRounds.whole,
    machine,
    models: models.map(({ name, size_bytes, weight_bytes_per_token }) => ({
      ...{ name, size_bytes, weight_bytes_per_token },
    })),
    complete,
    versions,
    subjects,
    rows,
    failures,
  };
}

export function secondsSince(begin: Date): number {
  return Math.round((Date.now() - begin.getTime()) / 1000);
}

/** The tables, one after the other. */
export function formatOutcome({ rows }: Outcome): string {
  const tables = [formatRows(rows), formatCosts(rows), formatRatios(rows)];
  return tables.filter((text) => text !== '').join('\n\n');
}

export function formatFailures({ failures }: Outcome): string[] {
  return failures.map(
    ({ model, what, setup, message }) =>
      `FAILED: ${model}, ${what}, ${describeSetup(setup)}: ${message}`,
  );
}
